"""`python reaper.py`: ends process groups once whoever started it is gone, however it went.

Reads `+GROUP` and `-GROUP` lines from standard input. When the input ends, because its owner
closed it or was killed, every group still listed gets SIGKILL. This reaches the children of our
children (engine workers, pools), which the kernel's parent-death signal does not.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        sign, group = line[0], int(line[1:])
        if sign == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


if __name__ == "__main__":
    main()
