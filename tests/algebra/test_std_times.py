"""Times that papers publish for the standard skeletons, by a simulator of a few lines: every rank in order,
each operation as soon as it can.
"""

from __future__ import annotations

import pytest

from algebra.standard import stashes
from interlock.program.kinds import Kind


def spans(
    program, times: dict[str, float], comm: float = 0, overlapped: float | None = None
) -> list[tuple[float, float, float]]:
    """(start of the first operation, end of the last, busy time) of each rank.

    An operation starts when its rank is free and its inputs are there, `comm` later if from another rank. A
    pair in `overlap` takes `overlapped`.
    """
    order, last = program.order, len(program.stages) - 1
    todo = []
    for first, end in zip(order.start[:-1], order.start[1:]):
        todo.append([])
        for i in range(first, end):
            op = (Kind(int(order.kind[i])).name, int(order.stage[i]), int(order.mb[i]))
            if i > first and order.launch[i] >= 0 and order.launch[i] == order.launch[i - 1]:
                todo[-1][-1].append(op)
            else:
                todo[-1].append([op])

    def inputs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("I", s, m)] if kind == "W" else [("F", s, m)] + [("I", s + 1, m)] * (s < last)

    ends: dict[tuple, float] = {}
    free, busy, begin, position = ([v] * program.ranks for v in (0.0, 0.0, None, 0))
    progress = True
    while progress:
        progress = False
        for r, row in enumerate(todo):
            while position[r] < len(row):
                group = row[position[r]]
                needed = [n for op in group for n in inputs(*op)]
                if any(n not in ends for n in needed):
                    break
                start = max([free[r]] + [ends[n] + comm * (program.stages[n[1]].rank != r) for n in needed])
                time = times[group[0][0]] if len(group) == 1 else overlapped
                free[r], busy[r] = start + time, busy[r] + time
                begin[r] = start if begin[r] is None else begin[r]
                for kind, s, m in group:
                    ends["I" if kind == "B" else kind, s, m] = free[r]
                position[r] += 1
                progress = True
    assert position == [len(row) for row in todo]
    return list(zip(begin, free, busy))


def makespan(found) -> float:
    return max(end for _, end, _ in found)


def bubble_rate(found, work: float) -> float:
    """(cost - work) / cost, cost the largest span of a rank (arXiv 2401.10241)."""
    cost = max(end - start for start, end, _ in found)
    return (cost - work) / cost


FULL = {"F": 1, "B": 2}
UNIT = {"F": 1, "B": 2, "I": 1, "W": 1}


@pytest.mark.parametrize("P, M", [(1, 1), (1, 5), (2, 2), (4, 4), (4, 7), (8, 24), (8, 3)])
def test_closed_forms(single, P, M):
    for name in ("1f1b", "gpipe", "breadth_first(chunks: 1)"):
        assert makespan(spans(single(name, P, M), FULL)) == 3 * (M + P - 1)
    for V in (2, 3):
        equal = {"F": 1, "B": 1}
        assert makespan(spans(single(f"interleaved(chunks: {V})", P, M, V), equal)) == max(
            2 * V * M + 2 * (P - 1), 2 * V * P + 2 * (M - 1)
        )
        if M >= P:
            for name in ("gpipe", "breadth_first"):
                assert makespan(spans(single(f"{name}(chunks: {V})", P, M, V), FULL)) == 3 * (M * V + P - 1)


@pytest.mark.parametrize("P", (1, 2, 3, 4, 8))
def test_idle_time_within_the_span_of_a_rank(single, P):
    M = 3 * P

    def idle(name, V=1):
        return max(end - start - busy for start, end, busy in spans(single(name, P, M, V), UNIT))

    assert idle("1f1b") == 3 * (P - 1)  # (P-1)(F+I+W)
    assert idle("zb_h1") == P - 1  # (P-1)(F+I-W)
    assert idle("zb_h2") == 0  # (P-1)(F+I-2W)
    assert idle("zb_v", 2) == 0


# arXiv 2401.10241, Table 9: P, M, F, I, W, transfer in ms; Table 5: bubble rates of 1F1B, ZB-H1, ZB-H2
TABLE_5 = [
    (8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083),
    (8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444),
    (8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0559),
    (16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0672),
]
# Table 8, and its inputs of a chunk (half a stage) in us; 1F1B, ZB-H1, ZB-H2
TABLE_8 = [
    (16, 48, 14407, 14380, 9676, 1610, 0.2668, 0.1536, 0.0823),
    (16, 64, 14412, 14393, 9688, 1621, 0.2206, 0.1198, 0.0630),
]


@pytest.mark.parametrize(
    "P, M, F, I, W, comm, one, h1, h2",
    TABLE_5 + [(P, M, 2 * F, 2 * I, 2 * W, *rest) for P, M, F, I, W, *rest in TABLE_8],
)
def test_published_bubble_rates_of_the_zero_bubble_schedules(single, P, M, F, I, W, comm, one, h1, h2):
    times = {"F": F, "I": I, "W": W, "B": I + W}
    found = [
        round(bubble_rate(spans(single(name, P, M), times, comm), M * (F + I + W)), 4)
        for name in ("1f1b", "zb_h1", "zb_h2")
    ]
    assert found == [one, h1, h2]


@pytest.mark.parametrize("P, M, T", [(4, 10, 66), (8, 20, 134)])
def test_dualpipev_idles_as_its_authors_say(single, P, M, T):
    found = spans(single("dualpipev", P, M, 2), UNIT, overlapped=3)
    assert makespan(found) == T and {T - busy for _, _, busy in found} == {
        2 * (P - 1)
    }  # (PP/2 - 1)(F&B + B - 3W), PP = 2P


@pytest.mark.parametrize(
    "P, M, rate, peak",
    [(4, 12, 0.1325, 0.5), (8, 24, 0.1579, 0.5), (16, 48, 0.1700, 0.375), (32, 96, 0.1760, 0.375)],
)
def test_published_bubble_rates_and_peaks_of_v_min(single, P, M, rate, peak):
    program = single("v_min", P, M, 2)
    assert round(bubble_rate(spans(program, UNIT), 6 * M), 4) == rate
    assert max(w for _, w in stashes(program)) == peak * 2 * P


@pytest.mark.parametrize("P, M", [(1, 3), (2, 2), (3, 6), (4, 4), (4, 12), (6, 6), (8, 16)])
@pytest.mark.parametrize("V", (2, 4, 6))
def test_hanayo_idles_two_thirds_of_1f1b_over_the_waves(single, P, M, V):
    """4(P-1) chunk forwards, so 2(P-1)/W stage forwards with W = V/2 waves; 1f1b: 3(P-1)."""
    assert makespan(spans(single(f"hanayo(chunks: {V})", P, M, V), FULL)) == 3 * M * V + 4 * (P - 1)


@pytest.mark.parametrize("P, M, V", [(1, 1, 2), (2, 3, 2), (3, 4, 4), (4, 4, 2), (4, 9, 4), (5, 7, 6)])
def test_hanayo_and_v_min_are_their_clocks(single, rows, P, M, V):
    """The closed forms of the loop programs against a sort of all operations by tick."""

    def stage(r, c):
        return c * P + (r if c % 2 == 0 else P - 1 - r)

    expected = []
    for r in range(P):
        ticks = []
        for m in range(M):
            x = 2 * (m % P) + V * P * (m // P)
            for s in (stage(r, c) for c in range(V)):
                ticks += [(s + x, 1, f"{s}F{m}"), (2 * V * P - 1 - s + x, 0, f"{s}B{m}")]
        expected.append([text for *_, text in sorted(ticks)])
    assert rows(single(f"hanayo(chunks: {V})", P, M, V)) == expected
    h = P + (P % 3 == 0)
    expected = []
    for r in range(P):
        ticks = {}
        for m in range(M):
            for s, other in ((r, 2 * P - 1 - r), (2 * P - 1 - r, r)):
                for tick, text in (
                    (s, f"{s}F{m}"),
                    (s + 2 * h, f"{other}I{m}"),
                    (s + 2 * h + 2 * (h % 3), f"{other}W{m}"),
                ):
                    assert tick + 6 * m not in ticks
                    ticks[tick + 6 * m] = text
        expected.append([ticks[t] for t in sorted(ticks)])
    assert rows(single("v_min", P, M, 2)) == expected
