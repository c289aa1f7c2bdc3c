"""A process of an emulation: `emulate_worker.py RANK RANKS STORE INBOX PIPE..`, the last two open
descriptors.
"""

import sys

from interlock.runtime.emulate import work

if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), [int(x) for x in sys.argv[5:]])
