"""Schedules of the tests of the gate: one that is fine, one that is warned about, one that deadlocks, and
what they come to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

GOOD = """schedule good {
  ranks 2
  microbatches 4
  model { layers llm[4] { } }
  cut { backbone = llm : 1f1b }
}
"""
GROWS = GOOD.replace("good", "grows").replace("1f1b", "gpipe")  # IL502, a warning
BAD = """schedule bad {
  ranks 2
  microbatches 2
  order transfers inserted {
    rank 0: 0F0 0B0 0F1 0B1
    rank 1: 1F1 1F0 1B0 1B1
  }
}
"""  # IL307 at 5:17; the help says what to move
WAIVER = "# interlock: allow IL502 because the encoder is small\n"
CSV = "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"
SPLIT_CSV = "0F0,0F1,0F2,0I0,0I1,0I2,0W0,0W1,0W2\n1F0,1I0,1F1,1I1,1F2,1I2,1W0,1W1,1W2\n"  # IL502, a note
RAISED = '[severity]\nIL502 = "error"\n'


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.out.splitlines()[-1]

    @property
    def report(self) -> dict:
        return json.loads(self.out)

    @property
    def schedules(self) -> list[dict]:
        return [s for f in self.report["files"] for s in f["schedules"]]
