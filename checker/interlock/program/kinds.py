"""Every kind of operation and what is true of it: the one table of kinds (spec/program.md, "Operations")."""

from __future__ import annotations

from enum import Enum, IntEnum


class Sort(Enum):
    COMPUTE = "compute"
    HOST = "compute-like, besides compute: the rank does it in its order"
    TRANSFER = "transfer"
    COLLECTIVE = "collective"
    NO_EVENT = "orders nothing and is waited for by nothing"


class Kind(IntEnum):
    """Number in the plain form, sort, and written form, which names the fields an operation of the kind has.

    `@{comm}` at the end of a form is left out for communicator 0. REDUCE on a Replicated stage: a collective.
    """

    F = 0, Sort.COMPUTE, "{stage}F{mb}"
    B = 1, Sort.COMPUTE, "{stage}B{mb}"
    I = 2, Sort.COMPUTE, "{stage}I{mb}"
    W = 3, Sort.COMPUTE, "{stage}W{mb}"
    LOSS = 4, Sort.COMPUTE, "{stage}LOSS{mb}"
    SEND_F = 5, Sort.TRANSFER, "{stage}SEND_F{mb}@{comm}"
    RECV_F = 6, Sort.TRANSFER, "{stage}RECV_F{mb}@{comm}"
    SEND_B = 7, Sort.TRANSFER, "{stage}SEND_B{mb}@{comm}"
    RECV_B = 8, Sort.TRANSFER, "{stage}RECV_B{mb}@{comm}"
    WAIT_F = 9, Sort.HOST, "{stage}WAIT_F{mb}"
    WAIT_B = 10, Sort.HOST, "{stage}WAIT_B{mb}"
    SEND = 11, Sort.TRANSFER, "send({peer}, {name})@{comm}"
    RECV = 12, Sort.TRANSFER, "recv({peer}, {name})@{comm}"
    WAIT = 13, Sort.HOST, "wait({name})"
    FREE = 14, Sort.NO_EVENT, "free({name})"
    REDUCE = 15, Sort.HOST, "{stage}REDUCE"
    REDUCE_DATA = 16, Sort.HOST, "reduce(data: {name})"
    REDUCE_TIE = 17, Sort.COLLECTIVE, "reduce(tie: {name})@{comm}"
    COLL = 18, Sort.COLLECTIVE, "coll({comm}, {name})"
    INIT = 19, Sort.COLLECTIVE, "init({comm})"
    ZERO = 20, Sort.HOST, "ZERO"
    STEP = 21, Sort.HOST, "STEP"
    UNSHARD = 22, Sort.NO_EVENT, "{stage}UNSHARD"
    RESHARD = 23, Sort.NO_EVENT, "{stage}RESHARD"

    sort: Sort
    form: str

    # the defaults are for type checkers, to which a look-up such as Kind(5) is a call of this
    def __new__(cls, number: int, sort: Sort = Sort.NO_EVENT, form: str = "") -> Kind:
        kind = int.__new__(cls, number)
        kind._value_ = number
        kind.sort, kind.form = sort, form
        return kind


def _of_sort(sort: Sort) -> frozenset[Kind]:
    return frozenset(kind for kind in Kind if kind.sort is sort)


def _with(field: str) -> frozenset[Kind]:
    return frozenset(kind for kind in Kind if f"{{{field}}}" in kind.form)


COMPUTE, TRANSFER = _of_sort(Sort.COMPUTE), _of_sort(Sort.TRANSFER)
COLLECTIVE, NO_EVENT = _of_sort(Sort.COLLECTIVE), _of_sort(Sort.NO_EVENT)
COMPUTE_LIKE = COMPUTE | _of_sort(Sort.HOST)
WITH_STAGE, WITH_MICROBATCH = _with("stage"), _with("mb")
WITH_PEER, WITH_NAME, WITH_COMMUNICATOR = _with("peer"), _with("name"), _with("comm")

BACKWARD = frozenset({Kind.B, Kind.I, Kind.W})
SENDS = frozenset({Kind.SEND_F, Kind.SEND_B, Kind.SEND})
PIPELINE = TRANSFER & WITH_MICROBATCH
TO_NEXT = frozenset({Kind.SEND_F, Kind.RECV_B})  # their other end is the next stage of the path
PIPELINE_WAITS = frozenset({Kind.WAIT_F, Kind.WAIT_B})
WAITS = PIPELINE_WAITS | {Kind.WAIT}
INSERTED = PIPELINE | PIPELINE_WAITS  # what insertion of transfers adds
NOT_INSERTED = TRANSFER | WAITS | {Kind.FREE}  # what a program with inserted transfers does not list
ALONE = frozenset(kind for kind in Kind if "{" not in kind.form)
