"""The reads of runs in indexes of collections: registered with the graph, and compared with the current keys.

Also what an observation has of them, and what an opening makes of that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from headwater.cells.far import far_spans
from headwater.cells.replica import Replica
from headwater.cells.span_reads import span_reads_now
from headwater.cells.span_records import SpanKey, is_far_span, own_span, question_code, question_of, split_index
from headwater.cells.span_tallies import Tally
from headwater.cells.transaction import Transaction
from headwater.errors import HeadwaterError
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import DocPath, Node
from headwater.store.collection_record import kind_of_index, record_doc
from headwater.store.commit import SpanRead
from headwater.store.observations import Observation, SpanSeen
from headwater.values.address import far_key
from headwater.values.ids import DocKey, Seq

Shifted: TypeAlias = Callable[[Sequence[tuple[tuple[SpanKey, ...], Seq]]], Sequence[Sequence[DocKey]]]
"""For each row, spans and a sequence number: documents that have changed in them since, or may have."""


def register_spans(graph: Graph, node: Node, tx: Transaction) -> None:
    """Register the reads of a run, instead of those of its last one."""
    reads = {} if tx.spans is None else tx.spans.dependencies()
    if tx.views is not None:
        reads.update(far_spans(tx))
    graph.spans.apply(node, reads)


def span_overtaken(graph: Graph, tx: Transaction, drain: Callable[[], None]) -> DocPath | None:
    """The cause, if a registered read has changed during the run: the record of the collection.

    `drain` takes in what has changed. What comes later is in the inbox, and invalidates the node.
    """

    def tally_now(key: SpanKey) -> Tally | None:
        drain()
        return graph.spans.tally_of(key)

    entry = None if tx.spans is None else tx.spans.overtaken(tx._drafts, tally_now)  # noqa: SLF001  # its own writes
    return None if entry is None else (record_doc(kind_of_index(entry.basis.named.name)), ())


def far_cause(tx: Transaction) -> DocPath:
    """The cause, where it is not known which read of another space has changed: the first collection that was read."""
    for key in far_spans(tx):
        return far_key(split_index(key.index)[0], record_doc(kind_of_index(own_span(key).index))), ()
    return DocKey("space/?"), ()


# --- observations -------------------------------------------------------------------------------------------


def near_spans(node: Node) -> Collection[SpanKey]:
    """The reads of the last run in indexes of its own space."""
    spans = node.rare.spans
    return [each for each in spans if not is_far_span(each)] if spans and node.rare.has_far else spans.keys()


def far_spans_of(node: Node) -> dict[SpanKey, bytes]:
    """The reads of the last run in indexes of other spaces, with the answers to questions."""
    spans = node.rare.spans
    return {key: answer for key, answer in spans.items() if is_far_span(key)} if spans else {}


def spans_seen(node: Node) -> tuple[SpanSeen, ...]:
    """The reads of the last run in its own space, as they are stored."""
    spans = node.rare.spans
    return tuple([span_seen(each, spans[each]) for each in near_spans(node)]) if spans else ()


def span_seen(key: SpanKey, answer: bytes) -> SpanSeen:
    """A read as it is stored."""
    return SpanSeen(key.index, key.lo, key.hi, key.fields, question_code(key.question), answer)


def as_of(key: SpanKey, seq: Seq) -> SpanRead:
    """A read as of an own commit that was accepted."""
    return SpanRead(key.index, key.lo, key.hi, seq, key.fields)


def restore_spans(graph: Graph, node: Node, observation: Observation) -> str:
    """Register the reads of a stored run. Returns why that is not possible; empty if it is.

    Its answers are those that later ones are compared with. Nothing is counted before the first change of the span.
    """
    reads: dict[SpanKey, bytes] = {}
    for each in () if observation.extra is None else observation.extra.spans:
        if not graph.spans.knows(each.index):
            return f"it has read the index {each.index}, which no open app declares"
        try:
            question = question_of(each.question)
        except (HeadwaterError, ValueError, TypeError):
            return f"it has asked something about the index {each.index} that this version does not know"
        reads[SpanKey(each.index, each.lo, each.hi, each.fields, question)] = each.answer
    if reads:
        graph.spans.apply(node, reads)
        set_noted_spans(node)
    return ""


def set_noted_spans(node: Node) -> None:
    """The observation of its last run is stored, or on the way to the store."""
    if node.rare.spans:
        node.own_rare().noted_spans = node.rare.spans


def with_same_answers(graph: Graph) -> list[Node]:
    """Nodes to be noted again: their answers are the same, though documents have changed in their spans since."""
    return [
        node
        for node in graph.spans.take_unnoted()
        if node.is_clean and node.attempt is None and node.rare.noted_spans is node.rare.spans
    ]


def all_shifted(rows: Sequence[tuple[tuple[SpanKey, ...], Seq]]) -> Sequence[Sequence[DocKey]]:
    """Nothing is known: each span may have changed."""
    return [(_record(spans),) for spans, _ in rows]


def add_shifted(
    causes: dict[Node, list[DocPath]], replica: Replica, restored: Iterable[tuple[Node, Seq]], shifted: Shifted
) -> None:
    """Add the documents that have changed in spans since stored runs. One question for all of them."""
    nodes = [(node, seq) for node, seq in restored if node.rare.spans and near_spans(node)]
    if not nodes:
        return
    found = shifted([(tuple(near_spans(node)), seq) for node, seq in nodes])
    with replica.lock:
        for (node, _), docs in zip(nodes, found, strict=True):
            # Written here, and not decided: the store does not know of it yet.
            layered = [doc for read in span_reads_now(replica, near_spans(node)) for doc in read.layered]
            others = [(doc, ()) for doc in dict.fromkeys([*docs, *layered])]
            if others:
                causes[node] = [*causes.get(node, []), *others]


def _record(spans: Iterable[SpanKey]) -> DocKey:
    """The record of the collection whose index is read: the cause, where no document is known."""
    return record_doc(kind_of_index(next(iter(spans)).index))
