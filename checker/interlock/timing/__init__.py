"""The performance model: durations, longest paths, and what they say of a schedule (spec/cost.md)."""
