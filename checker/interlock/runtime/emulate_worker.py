"""A process of an emulation: `emulate_worker.py RANK RANKS STORE JOBS OUT`."""

import sys

from interlock.runtime.emulate import worker

if __name__ == "__main__":
    worker(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
