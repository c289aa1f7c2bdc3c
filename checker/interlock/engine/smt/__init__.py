"""The SMT engine: rules as SMT-LIB text in named assertion groups, decided by z3 (spec/smt.md).

A question of spec/smt.md is built as a `Query` (`build_.._query`), which `emit` writes for any solver, and
decided by the function beside it:

| question | asked by | answers besides Unknown |
| --- | --- | --- |
| who waits for whom | solve, build_dependency_query | a Solution, as the graph engine's |
| which backward work exists | check_footprint, build_footprint_query | Agrees, Differs |
| live bytes | check_memory, find_largest_size, build_memory_query | Fits, Over; Largest, Over |
| one order for every freezing | check_freezings, build_invariance_query | Holds, Fails |
| peaks under every freezing, whatever the sizes | build_peak_query | |
| every owner map | check_owner_maps, build_owner_query | Holds, Fails |
| durations within intervals | longest_path.find_excess | values that break the requirement, or None |

An answer is not trusted: times and walks go to the kernel. No answer is `Unknown` with its reason, never
valid; two solvers that contradict each other raise Contradiction. z3 is imported in z3_solver.py alone and
cvc5 in cvc5_solver.py, when a query is decided.
"""

from interlock.engine.smt.dependency import build_dependency_query, solve
from interlock.engine.smt.invariance import (
    Fails,
    Holds,
    build_invariance_query,
    build_peak_query,
    check_freezings,
)
from interlock.engine.smt.live import TooLarge
from interlock.engine.smt.memory import (
    Fits,
    Largest,
    Over,
    build_memory_query,
    check_memory,
    find_largest_size,
)
from interlock.engine.smt.owner_maps import build_owner_query, check_owner_maps
from interlock.engine.smt.presence import Agrees, Differs, build_footprint_query, check_footprint
from interlock.engine.smt.query import TIMEOUT_MS, Contradiction, Query, Unknown, emit
from interlock.engine.smt.sizes import Parameter
from interlock.engine.smt.violations import Violation

__all__ = [
    "TIMEOUT_MS",
    "Agrees",
    "Contradiction",
    "Differs",
    "Fails",
    "Fits",
    "Holds",
    "Largest",
    "Over",
    "Parameter",
    "Query",
    "TooLarge",
    "Unknown",
    "Violation",
    "build_dependency_query",
    "build_footprint_query",
    "build_invariance_query",
    "build_memory_query",
    "build_owner_query",
    "build_peak_query",
    "check_footprint",
    "check_freezings",
    "check_memory",
    "check_owner_maps",
    "emit",
    "find_largest_size",
    "solve",
]
