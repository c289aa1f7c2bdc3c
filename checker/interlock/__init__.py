"""Interlock: a specification and a verified checker for pipeline-parallel training schedules."""

__version__ = "0.1.0"
