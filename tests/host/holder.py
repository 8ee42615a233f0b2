"""A process that holds a space until its input ends. Usage: holder.py PATH"""

from __future__ import annotations

import sys

from headwater.core import open_space

with open_space(sys.argv[1]):
    sys.stdout.write("open\n")
    sys.stdout.flush()
    sys.stdin.read()
