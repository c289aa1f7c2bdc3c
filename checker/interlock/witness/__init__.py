"""Counterexamples: told (story), repaired (repair), drawn (lines), and replayed (executor)."""
