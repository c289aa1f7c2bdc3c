"""Prints the closed forms of the standard skeletons, each checked against the simulator (spec/cost.md,
"Closed forms").

PYTHONPATH=checker python benchmarks/closed.py [SKELETON ..]
"""

import sys

from interlock.algebra.closed_forms import FIGURES, SKELETONS, close

if __name__ == "__main__":
    for name in sys.argv[1:] or SKELETONS:
        for figure in FIGURES:
            form = close(name, figure)
            if form.expression is not None or figure != "in flight until W":
                print(form, flush=True)
