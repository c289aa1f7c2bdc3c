"""What is kept of a trace: the ranges somebody named, autograd's operations, launches and what they
launched.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from interlock.profile.events import Trace, nanoseconds
from interlock.text.source import Source

BACKWARD = "autograd::engine::evaluate_function: "
LAUNCHES = frozenset(
    {"cuda_runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver", "xpu_runtime", "hip_runtime"}
)
DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
FOREIGN = frozenset(
    {"async_npu", "HostToDevice"}
)  # of torch_npu, whose kernels have no category and no correlation id
KEPT = LAUNCHES | DEVICE | {"user_annotation", "cpu_op"}
Thread = tuple[object, object]  # pid, tid


@dataclass(frozen=True, slots=True)
class Interval:
    """[start, end) in ns, on a thread."""

    name: str
    start: int
    end: int
    thread: Thread

    def holds(self, other: Interval) -> bool:
        return self.thread == other.thread and self.start <= other.start and other.end <= self.end


@dataclass
class Records:
    """ranges: of record_function. forward[thread, number]: the operation that made the autograd node of that
    number (of those with the number the one that
    began last, as PyTorch itself pairs them). backward: what the engine ran, ascending, with (forward thread
    as autograd counts threads, number) of its node,
    None for AccumulateGrad. launches[thread]: (start, correlation, name), ascending. device[correlation]:
    intervals of kernels, copies and fills.
    doubled: correlations launched twice. torn: events without a time. foreign: a category of FOREIGN, if
    there is one.
    """

    ranges: list[Interval] = field(default_factory=list)
    forward: dict[tuple[Thread, int], Interval] = field(default_factory=dict)
    backward: list[tuple[Interval, tuple[int, int] | None]] = field(default_factory=list)
    launches: dict[Thread, list[tuple[int, int, str]]] = field(default_factory=lambda: defaultdict(list))
    device: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    doubled: set[int] = field(default_factory=set)
    device_name: str | None = None
    torn: int = 0
    foreign: str | None = None

    def launched_in(self, where: Interval) -> list[tuple[int, int, str]]:
        rows = self.launches.get(where.thread, [])
        return rows[bisect.bisect_left(rows, (where.start,)) : bisect.bisect_left(rows, (where.end,))]


def read_records(source: Source) -> Records:
    """Raises InputError (IL116) where the file is no trace."""
    out, trace = Records(), Trace(source)
    seen: Counter[int] = Counter()
    for event in trace:
        category, name, args = event.get("cat"), event.get("name"), event.get("args")
        if not isinstance(name, str) or not isinstance(category, str):
            continue
        if category in FOREIGN:
            out.foreign = category
        if event.get("ph") != "X" or category not in KEPT:
            continue
        start, length = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
        thread = (_hashable(event.get("pid")), _hashable(event.get("tid")))
        args = args if isinstance(args, dict) else {}
        if start is None or length is None or length < 0:
            out.torn += 1
            continue
        here = Interval(name, start, start + length, thread)
        number = args.get("correlation")
        if category == "user_annotation":
            out.ranges.append(here)
        elif category in LAUNCHES and isinstance(number, int):
            out.launches[thread].append((start, number, name))
            seen[number] += 1
        elif category in DEVICE and isinstance(number, int):
            out.device[number].append((start, start + length))
        elif category == "cpu_op":
            _operation(out, here, args)
    for rows in out.launches.values():
        rows.sort()
    out.doubled = {n for n, count in seen.items() if count > 1}
    out.backward.sort(key=lambda pair: pair[0].start)
    out.ranges.sort(key=lambda r: (r.start, -r.end))
    properties = trace.others.get("deviceProperties")
    names = (
        {str(p.get("name")) for p in properties if isinstance(p, dict)}
        if isinstance(properties, list)
        else set()
    )
    out.device_name = (
        next((n for n in names if n.isprintable() and len(n) <= 100), None) if len(names) == 1 else None
    )
    return out


def _operation(out: Records, here: Interval, args: dict) -> None:
    number, origin = args.get("Sequence number"), args.get("Fwd thread id")
    numbered = isinstance(number, int) and isinstance(origin, int)
    if here.name.startswith(BACKWARD):
        out.backward.append(
            (here, (origin, number) if numbered and "AccumulateGrad" not in here.name else None)
        )
    elif (
        numbered and number >= 0 and origin == 0
    ):  # of what a backward calls, `origin` is the thread of its forward
        key = (here.thread, number)
        if key not in out.forward or here.start > out.forward[key].start:
            out.forward[key] = here


def _hashable(value: object) -> object:
    return value if isinstance(value, (int, str)) else None


def busy_time(intervals: Iterable[tuple[int, int]]) -> int:
    """ns in which at least one of these runs."""
    total, until = 0, None
    for start, end in sorted(intervals):
        if until is None or start > until:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return total
