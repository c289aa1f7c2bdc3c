"""From the syntax tree to programs: cut, skeleton, derive (spec/algebra.md)."""
