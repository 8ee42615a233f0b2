"""The reads of an observation, in the form of the journal."""

from __future__ import annotations

from headwater.cells.pending_commit import SHALLOW_BIT, ReadKey
from headwater.store.observations import Observation
from headwater.values.address import Depth


def reads_of(observation: Observation) -> tuple[ReadKey, ...]:
    """The reads in the form of the journal: the next run is compared with them."""
    reads = observation.reads
    if len(reads) == 1 and not isinstance(reads[0], tuple):
        # One whole document: most runs.
        return ((reads[0], (), 0),)
    found: dict[ReadKey, None] = {}
    for read in reads:
        doc, path, shallow = read if isinstance(read, tuple) else (read, (), False)
        found[doc, path, SHALLOW_BIT if shallow else 0] = None
    return tuple(found)


def is_sound(observation: Observation) -> bool:
    """Whether all its calls are among its reads."""
    calls = () if observation.extra is None else observation.extra.calls
    return all(0 <= call.read < len(observation.reads) for call in calls)


def depth_of(bits: int) -> Depth:
    """The depth of a read."""
    return Depth.SHALLOW if bits else Depth.DEEP
