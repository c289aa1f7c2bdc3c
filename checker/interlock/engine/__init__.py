"""Engines search and are not trusted: what they find is judged by the kernel."""
