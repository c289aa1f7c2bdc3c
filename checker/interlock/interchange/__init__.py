"""Importers and exporters: PyTorch schedule CSVs (spec/interchange.md), explicit orders."""
