"""The kernel: the only judge of certificates. It imports the standard library alone, and no other room."""

from interlock.kernel.certificate import verify
from interlock.kernel.judge import Judge, Judgement, judge, judge_all

__all__ = ["Judge", "Judgement", "judge", "judge_all", "verify"]
