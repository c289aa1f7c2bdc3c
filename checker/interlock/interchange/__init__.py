"""Importers and exporters: PyTorch schedule CSVs, Megatron layouts, step lists of other systems
(spec/interchange.md), explicit orders.
"""
