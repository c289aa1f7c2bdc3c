"""Text <-> syntax tree: parse, format, diagnostics with spans."""
