"""What each operation of a plan says beside its place: peers, where data come from and go to, the footprint's gates, what is let go."""

from __future__ import annotations

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import TRANSFER, WITH_MICROBATCH, WITH_STAGE, Kind, Program

BATCH, LOSS, LOCAL, WIRE = "batch", "loss", "local", "wire"


def list_actions(program: Program) -> list[list[dict]]:
    """For each rank one dictionary an operation (spec/lowering.md, "Operations"). Asks for a program without IL304."""
    facts, o = Facts(program), program.order
    fp = facts.footprint
    last = _last_backward(facts)
    rank_of = lambda s, m: (
        program.stages[s].owner[m] if program.stages[s].replicated else program.stages[s].rank
    )
    loss_listed = facts.first_LOSS >= 0
    out: list[list[dict]] = []
    columns = [getattr(o, c).tolist() for c in ("kind", "stage", "mb", "peer", "name", "comm", "launch")]
    rows = list(zip(*columns))
    cls = facts.cls.tolist()
    for r in range(program.ranks):
        mine: list[dict] = []
        for row in range(int(o.start[r]), int(o.start[r + 1])):
            number, s, m, peer, name, comm, launch = rows[row]
            kind = Kind(number)
            a: dict = {"do": kind.name}
            if kind in WITH_STAGE:
                a["stage"] = s
            if kind in WITH_MICROBATCH:
                a["mb"] = m
                c = cls[row]
                before, after = int(fp.prev[c, s]), int(fp.next[c, s])
                side = lambda other: LOCAL if rank_of(other, m) == r else WIRE
                if kind is Kind.F:
                    a |= {
                        "from": BATCH if before < 0 else side(before),
                        "to": LOSS if after < 0 else side(after),
                        "prev": before,
                        "next": after,
                        "back": bool(fp.back[c, s]),
                        "cross": bool(fp.cross[c, s]),
                    }
                    if after < 0 and loss_listed[s * facts.M + m]:
                        a["loss"] = "later"
                elif kind in (Kind.B, Kind.I, Kind.W):
                    a |= {
                        "back": bool(fp.back[c, s]),
                        "cross": bool(fp.cross[c, s]),
                        "weights": bool(fp.wwork[c, s]),
                    }
                    if kind is not Kind.W:
                        a |= {"from": LOSS if after < 0 else side(after), "prev": before, "next": after}
                        a["to"] = "nothing" if before < 0 or not fp.cross[c, s] else side(before)
                    if last[row]:
                        a["drop"] = True
                elif kind in TRANSFER:
                    away = after if kind in (Kind.SEND_F, Kind.RECV_B) else before
                    a |= {"peer": rank_of(away, m), "other": away}
                    if (
                        kind in (Kind.SEND_B, Kind.RECV_B)
                        and not fp.cross[c, s if kind is Kind.SEND_B else away]
                    ):
                        a["empty"] = True  # a placeholder's transfer: no gradient crosses here
            if kind in (Kind.SEND, Kind.RECV):
                a["peer"] = peer
            if name >= 0:
                a["name"] = program.names[name]
            if comm:
                a["comm"] = comm
            if launch >= 0:
                a["launch"] = launch
            mine.append(a)
        out.append(mine)
    return out


def _last_backward(facts: Facts) -> np.ndarray:
    """Rows after which nothing of their (stage, microbatch) is needed: W, or what computes the input gradient if no W is listed."""
    last = np.zeros(facts.n, dtype=bool)
    ends = np.where(facts.first_W >= 0, facts.first_W, facts.first_X)
    last[ends[ends >= 0]] = True
    return last
