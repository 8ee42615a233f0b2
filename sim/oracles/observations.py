"""I7: a commit that names the observation of an earlier run by its digest names one that is on disk."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.store.observations import DIGEST_BYTES, digest_of
from headwater.values.ids import DocKey
from sim.oracles.moments import Complain, Moment


def check_digests(log: Iterable[Moment], complain: Complain) -> None:
    """Over a whole log. Another session may have stored another observation since: then the run is repeated."""
    known: dict[DocKey, set[bytes]] = {}
    for moment in log:
        if moment.entry.seen is None:
            continue
        index, body = moment.entry.seen
        if index >= len(moment.entry.operations):
            continue
        doc = moment.entry.operations[index].doc
        if len(body) != DIGEST_BYTES:
            known.setdefault(doc, set()).add(digest_of(body))
        elif body not in known.get(doc, ()):
            complain("I7", f"commit {moment.seq} names an observation of {doc} that was never stored")
