"""Lowering: a verified program to a plan that a runtime executes, read back and checked before it is written
(spec/lowering.md).
"""
