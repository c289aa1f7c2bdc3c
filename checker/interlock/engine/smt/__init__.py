"""The SMT engine: rules as SMT-LIB text in named assertion groups, decided by z3. Nothing else in the project imports z3 or cvc5.

`dep`: who waits for whom (dependency.py); `foot`: which backward work exists (footprint.py); `mem`: live bytes (live.py, sizes.py, memory.py); all
together: one order for every freezing (invariance.py); owner maps as an uninterpreted function (owner.py). What z3 is asked is text (query.py),
so that any solver can be asked the same: `emit`, and cvc5 where it is installed (second.py). An answer is not trusted: times and walks go
to the kernel, and no answer is `Unknown`, never valid.
"""

from interlock.engine.smt.dependency import dependency_query, solve
from interlock.engine.smt.footprint import Agrees, Difference, Differs, footprint_agrees, footprint_query
from interlock.engine.smt.invariance import Fails, Holds, freezing_query, invariance_query, invariant
from interlock.engine.smt.live import TooLarge
from interlock.engine.smt.memory import Fits, Largest, Over, fits, largest, memory_query
from interlock.engine.smt.owner import any_owner, owner_query
from interlock.engine.smt.query import TIMEOUT_MS, Contradiction, Query, Unknown, emit
from interlock.engine.smt.sizes import Parameter

__all__ = [
    "TIMEOUT_MS",
    "Agrees",
    "Contradiction",
    "Difference",
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
    "any_owner",
    "dependency_query",
    "emit",
    "fits",
    "footprint_agrees",
    "footprint_query",
    "freezing_query",
    "invariance_query",
    "invariant",
    "largest",
    "memory_query",
    "owner_query",
    "solve",
]
