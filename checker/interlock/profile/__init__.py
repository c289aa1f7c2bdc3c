"""Profiles, the figures of a model as measured: read, written, taken from a trace, measured with PyTorch
(spec/profiles.md).
"""
