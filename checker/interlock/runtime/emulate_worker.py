"""A process of an emulation: `emulate_worker.py RANK RANKS STORE INBOX PIPE..`, the last ones open descriptors."""

import sys

from interlock.runtime.emulate import worker

if __name__ == "__main__":
    worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), [int(x) for x in sys.argv[5:]])
