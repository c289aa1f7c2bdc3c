"""The kernel: the only judge of certificates. It imports the standard library alone, and no other room."""

from .certificate import verify
from .judge import Judge, Judgement, judge, judge_all

__all__ = ["Judge", "Judgement", "judge", "judge_all", "verify"]
