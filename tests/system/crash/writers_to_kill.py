"""A process to kill: four writers commit to one space, and each commit's number is printed once it is acknowledged.

Usage: writers_to_kill.py PATH DURABILITY
"""

from __future__ import annotations

import sys
import threading
from itertools import count
from typing import cast

from headwater.core import Add, Increment, PatchDoc, SetDoc, Storage, doc_key, freeze, open_space
from headwater.store.backends.sqlite_file import Durability

WRITERS = 4
HISTORY = 50
"""Numbers each writer keeps in its document, so that more than a counter would be seen to be torn."""


def write(space: Storage, writer: int) -> None:
    """Commit n to two documents at once, again and again, starting from what the last life left behind."""
    replica = space.attach()
    pair = [doc_key(f"{side}-{writer}") for side in ("left", "right")]
    found = replica.read(pair[0])
    if not isinstance(found, dict):
        replica.commit([SetDoc(doc, freeze({"n": 0, "seen": {}})) for doc in pair])
        replica.sync()
        found = replica.read(pair[0])
    assert isinstance(found, dict)
    start = found["n"]
    assert isinstance(start, int)
    for number in count(start + 1):
        edits = (Increment(("n",), 1), Add(("seen", str(number % HISTORY)), number))
        pending = replica.commit([PatchDoc(doc, edits) for doc in pair])
        replica.sync()
        assert pending.accepted, pending.verdict
        sys.stdout.write(f"{writer} {number}\n")
        sys.stdout.flush()


def main(path: str, durability: str) -> None:
    space = open_space(path, durability=cast("Durability", durability))
    threads = [threading.Thread(target=write, args=(space, writer), daemon=True) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
