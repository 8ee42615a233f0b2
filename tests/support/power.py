"""Processes that lose what they have not synced when they are killed."""

import sys

POWER_CUT = [sys.executable, "-m", "headwater.testing.powercut"]
"""In the place of `sys.executable`: FILE, -m MODULE or -c CODE follow."""
