"""What spans cost at a server: by what is compared, loaded and sent, not by time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.store.collection_record import KeyMove, Shift
from headwater.store.commit import SetDoc
from headwater.store.document import StoredDocument
from headwater.sync.span_watches import SpanWatches, WatchedSpan
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.sortkey import encode_key
from tests.support.spaces import Space, put
from tests.sync.span_server import BY_STATE, Service, SpanClient, of_state

OPEN = of_state("open")


def order(n: int) -> SetDoc:
    value = {"state": "open", "n": n, "customer": f"customer {n}", "note": "n" * 60}
    return put(f"order:{n:032x}", value)


class Seat:
    """A session with spans."""

    def __init__(self) -> None:
        self.spans: dict[int, WatchedSpan] = {}

    def may_see(self, _doc: DocKey) -> bool:
        return True


def test_a_moved_key_is_compared_with_few_of_a_hundred_thousand_spans() -> None:
    rng = random.Random(7)
    watches: SpanWatches[Seat] = SpanWatches()
    seats = [Seat() for _ in range(1000)]
    for number in range(100_000):
        lo = encode_key([f"user{number % 10_000}", rng.randrange(10**6)], "order:a")  # type: ignore[arg-type]
        hi = encode_key([f"user{number % 10_000}", 2 * 10**6], "order:a")  # type: ignore[arg-type]
        watches.add(seats[number % 1000], WatchedSpan(number, BY_STATE, lo, hi, has_docs=False))
    before, hits = watches.visits, 0
    for n in range(1000):
        made = encode_key([f"user{n * 17 % 20_000}", rng.randrange(10**6)], "order:b")  # type: ignore[arg-type]
        move = KeyMove(BY_STATE, None, made)
        shift = Shift(MAIN, Seq(n), SessionId("w"), LocalSeq(n), doc_key("order:b"), (move,), None)
        hits += len(watches.news_of([shift], None, ()))
    assert hits
    # A file for each length of a shared prefix, and the ranges that hold the key.
    assert watches.visits - before <= 1000 * 4 + 12 * hits


@pytest.mark.pure("replaces a method")
@pytest.mark.parametrize("count", [300, 20_000])
def test_page_costs_one_question_and_few_bytes_however_many_documents_there_are(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(Space("memory", tmp_path))
    for start in range(0, count, 1000):
        batch = range(start, min(start + 1000, count))
        service.write(*[order(n) for n in batch])
    client = SpanClient(service, "page")
    loaded: list[DocKey] = []
    states = service.engine.states
    many = states.many

    def counted(branch: BranchId, docs: Sequence[DocKey], through: Seq) -> dict[DocKey, StoredDocument]:
        loaded.extend(docs)
        return many(branch, docs, through)

    monkeypatch.setattr(states, "many", counted)
    number = client.ask(BY_STATE, *OPEN, limit=66, docs=66, at=service.head)
    assert len(client.wire.said) == 1
    assert len(client.wire.said[0]) <= 32 * 1024
    client.read()
    assert len(client.spans[number].keys) == 66
    assert len(client.docs) == 66
    assert len(loaded) == 66
