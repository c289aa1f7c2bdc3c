"""The SMT engine: rules as SMT-LIB text in named assertion groups, decided by z3. Nothing else in the project imports z3.

`dep`: who waits for whom (dependency.py); `foot`: which backward work exists (footprint.py); both together: one order for
every freezing (invariance.py). What z3 is asked is text (query.py), so that any solver can be asked the same: `emit`.
An answer is not trusted: times and walks go to the kernel, and no answer is `Unknown`, never valid.
"""

from .dependency import dependency_query, solve
from .footprint import Agrees, Difference, Differs, footprint_agrees, footprint_query
from .invariance import Fails, Holds, invariance_query, invariant
from .query import TIMEOUT_MS, Query, Unknown, emit

__all__ = ["TIMEOUT_MS", "Agrees", "Difference", "Differs", "Fails", "Holds", "Query", "Unknown", "dependency_query", "emit",
           "footprint_agrees", "footprint_query", "invariance_query", "invariant", "solve"]
