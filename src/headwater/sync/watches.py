"""Which sessions watch which documents, and what each is sent.

Sessions that watch the same documents get the same frame, which is encoded once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, Protocol, TypeVar, cast

from headwater.cells.pending_commit import Failure
from headwater.store.collection_record import KeyMove, kind_of
from headwater.store.commit import CommitOutcome, Committed, Effect, Operation, PatchDoc, Seen, SetDoc
from headwater.store.observations import collections_of, decode_observation, docs_of
from headwater.sync.frame_limits import WATCHES_MAX
from headwater.sync.frames import CommitFailed, Judged, New, News, Written, encode_frame
from headwater.sync.span_watches import SpanNews, SpanWatcher, SpanWatches
from headwater.values.address import Address
from headwater.values.ids import DocKey, Seq, SessionId
from headwater.values.link import parse_link, target
from headwater.values.tree import ABSENT, Maybe, Value, is_array, is_link, is_map

READERS_OF_MAX: Final = 4096
"""Documents whose watchers are remembered."""


class Watcher(SpanWatcher, Protocol):
    """The part of a session that is used here."""

    @property
    def session(self) -> SessionId:
        """The session whose commits it makes."""
        ...

    @property
    def watched(self) -> dict[DocKey, None]:
        """The watched documents."""
        ...

    @property
    def prefixes(self) -> dict[str, None]:
        """The watched prefixes of keys."""
        ...


W = TypeVar("W", bound=Watcher)


class Watches(Generic[W]):
    """The watches of one branch."""

    def __init__(self) -> None:
        self._by_doc: dict[DocKey, dict[W, None]] = {}
        self._by_prefix: dict[str, dict[W, None]] = {}
        self._by_session: dict[SessionId, W] = {}
        # The watchers of a document, by key and by prefix: found once, and forgotten when the watches change.
        self._readers_of: dict[DocKey, tuple[W, ...]] = {}
        # The kinds of the collections with rules: some sessions may not read these.
        self.ruled: frozenset[str] = frozenset()
        self.spans: Final[SpanWatches[W]] = SpanWatches()

    def __len__(self) -> int:
        return sum(map(len, self._by_doc.values())) + len(self.spans)

    @property
    def sessions(self) -> dict[SessionId, W]:
        """All watchers, by session."""
        return self._by_session

    def enter(self, watcher: W) -> None:
        """Add a session: from now on it gets the verdicts on its commits."""
        self._by_session[watcher.session] = watcher

    def add(self, watcher: W, docs: Iterable[DocKey], prefixes: Iterable[str] = ()) -> None:
        """Watch these documents, too."""
        for doc in docs:
            if doc not in watcher.watched:
                watcher.watched[doc] = None
                self._by_doc.setdefault(doc, {})[watcher] = None
                self._readers_of.pop(doc, None)
        for prefix in prefixes:
            self._readers_of.clear()
            watcher.prefixes[prefix] = None
            self._by_prefix.setdefault(prefix, {})[watcher] = None

    def remove(self, watcher: W, docs: Iterable[DocKey], prefixes: Iterable[str] = ()) -> None:
        """Stop watching these documents. Entries without a watcher are removed."""
        for doc in docs:
            if doc in watcher.watched:
                del watcher.watched[doc]
                _take(self._by_doc, doc, watcher)
                self._readers_of.pop(doc, None)
        for prefix in prefixes:
            if prefix in watcher.prefixes:
                self._readers_of.clear()
                del watcher.prefixes[prefix]
                _take(self._by_prefix, prefix, watcher)

    def leave(self, watcher: W) -> None:
        """Remove a session that has ended."""
        self.remove(watcher, list(watcher.watched), list(watcher.prefixes))
        self.spans.remove(watcher, list(watcher.spans))
        if self._by_session.get(watcher.session) is watcher:
            del self._by_session[watcher.session]

    def _readers(self, doc: DocKey) -> tuple[W, ...]:
        """The watchers of a document, each once."""
        readers = self._readers_of.get(doc)
        if readers is None:
            found = dict(self._by_doc.get(doc, {}))
            for prefix, watchers in self._by_prefix.items():
                if doc.startswith(prefix):
                    found |= watchers
            if len(self._readers_of) >= READERS_OF_MAX:
                self._readers_of.clear()
            if self.ruled and kind_of(doc) in self.ruled:
                found = {each: None for each in found if each.may_see(doc)}
            readers = self._readers_of[doc] = tuple(found)
        return readers

    # -- telling -------------------------------------------------------------------------------------------

    def tell(
        self, decided: Iterable[CommitOutcome | Failure], before: Seq, seq: Seq
    ) -> Iterator[tuple[W, bytes, list[New]]]:
        """The frame for each session, with its parts. Clients had the log up to `before`, and now get it up to `seq`.

        A commit that was sent again, or changed nothing, has a place that clients have: only its session gets the
        verdict.
        """
        told: dict[W, list[New]] = {}
        writers: set[W] = set()
        for outcome in decided:
            mine = self._by_session.get(outcome.commit.session)
            if mine is not None:
                told.setdefault(mine, []).append(_judged(outcome))
                writers.add(mine)
            if type(outcome) is CommitOutcome and type(outcome.verdict) is Committed:
                if mine is not None:
                    # The writer of a document holds it, and has to be notified of other commits to it.
                    docs = [each.doc for each in outcome.commit.operations]
                    self.add(mine, [doc for doc in docs if mine.may_see(doc)] if self.ruled else docs)
                place = outcome.verdict.seq
                if place > before:
                    before = place
                    self._add_written(told, outcome, place, mine)
        frames: dict[tuple[int, ...], bytes] = {}
        # Writers last: each shows its own commits already, and all others wait to see them.
        for watcher, news in sorted(told.items(), key=lambda each: each[0] in writers):
            key = tuple(map(id, news))
            frame = frames.get(key)
            if frame is None:
                frame = frames[key] = encode_frame(News(seq, tuple(news)))
            yield watcher, frame, news

    def _add_written(self, told: dict[W, list[New]], outcome: CommitOutcome, seq: Seq, mine: W | None) -> None:
        """Add a commit to the news of those that watch one of its documents or keys, its writer excepted."""
        commit = outcome.commit
        operations = commit.operations
        private = _private(commit.seen, self.ruled)
        in_spans: dict[W, SpanNews] = {}
        if outcome.shifts and len(self.spans):
            in_spans = self.spans.news_of(outcome.shifts, mine, self.ruled)
        if len(operations) != 1 or private or in_spans:
            for watcher, written in self._written(outcome, seq, mine, private, in_spans):
                told.setdefault(watcher, []).append(written)
            return
        # The commonest commit, without a call for each watcher: there may be hundreds.
        written = Written(seq, commit.session, operations, commit.seen)
        for watcher in self._readers(operations[0].doc):
            if watcher is not mine:
                news = told.get(watcher)
                if news is None:
                    told[watcher] = [written]
                else:
                    news.append(written)

    def _written(
        self, outcome: CommitOutcome, seq: Seq, mine: W | None, private: list[DocKey], in_spans: dict[W, SpanNews]
    ) -> Iterator[tuple[W, Written]]:
        commit = outcome.commit
        docs = list(dict.fromkeys(operation.doc for operation in commit.operations))
        if len(docs) == 1 and not in_spans:
            written = Written(seq, commit.session, commit.operations, commit.seen)
            without = Written(seq, commit.session, commit.operations) if private else written
            for watcher in self._readers(docs[0]):
                if watcher is not mine:
                    yield watcher, written if not private or all(map(watcher.may_see, private)) else without
            return
        hit: dict[W, list[DocKey]] = {}
        for doc in docs:
            for watcher in self._readers(doc):
                hit.setdefault(watcher, []).append(doc)
        made = _linked(outcome) if hit else {}
        for watcher in in_spans:
            hit.setdefault(watcher, [])
        after = {each.doc: each.after for each in outcome.effects} if in_spans else {}
        shared: dict[object, Written] = {}
        for watcher, seen in hit.items():
            if watcher is mine:
                continue
            brought = [doc for doc in made if doc not in watcher.watched and watcher.may_see(doc)] if seen else []
            # Documents that a commit creates and links to are sent along, and watched from then on.
            self.add(watcher, brought)
            tells = not private or all(map(watcher.may_see, private))
            sent = {*seen, *brought}
            parts = (tuple([doc for doc in docs if doc in sent]), tuple(brought), tells)
            spans = in_spans.get(watcher)
            if spans is None:
                written = shared.get(parts) or _part(outcome, seq, *parts)
                shared[parts] = written
            else:
                # So are those that enter a span.
                entered = _entered(spans, watcher.watched, sent, after)
                self.add(watcher, entered)
                key = (parts, tuple(map(id, spans.moves)), entered)
                values = {doc: after[doc] for doc in entered}
                written = shared.get(key) or _with_spans(_part(outcome, seq, *parts), tuple(spans.moves), values)
                shared[key] = written
            yield watcher, written


def _take(table: dict[DocKey, dict[W, None]] | dict[str, dict[W, None]], key: str, watcher: W) -> None:
    watchers = table.get(key)  # type: ignore[call-overload]  # a key of either
    if watchers is not None:
        watchers.pop(watcher, None)
        if not watchers:
            del table[key]  # type: ignore[arg-type]  # as above


def _entered(
    news: SpanNews, watched: dict[DocKey, None], sent: set[DocKey], after: dict[DocKey, Maybe]
) -> tuple[DocKey, ...]:
    """The documents that enter a span and that the session does not have, as many as it may watch."""
    # After an interrupted write the log alone is known, and not the values: the client asks for them.
    new = [doc for doc in news.entered if doc not in watched and doc not in sent and doc in after]
    return tuple(new[: max(WATCHES_MAX - len(watched) - len(sent), 0)])


def _with_spans(written: Written, moves: tuple[KeyMove, ...], entered: dict[DocKey, Maybe]) -> Written:
    """The part of a commit that is watched, with the moves of keys and the documents that have entered spans."""
    sets: list[Operation] = [SetDoc(doc, cast("Value", value)) for doc, value in entered.items()]
    operations = (*written.operations, *sets)
    return Written(written.seq, written.session, operations, written.seen, (*written.brought, *entered), moves)


def _private(seen: Seen | None, ruled: frozenset[str]) -> list[DocKey]:
    """The reads of a run that some clients may not know of: they do not get these keys.

    They are outside of the space's scope, or of collections with rules.
    """
    if seen is None:
        return []
    has_ruled = any(kind.encode() in seen[1] for kind in ruled)
    if not has_ruled and b"user:" not in seen[1] and b"session:" not in seen[1]:
        return []
    found = decode_observation(seen[1])
    if found is None:
        return []
    docs = [*docs_of(found), *collections_of(found)]
    return [doc for doc in docs if not doc.startswith("space/") or kind_of(doc) in ruled]


def _part(
    outcome: CommitOutcome,
    seq: Seq,
    docs: tuple[DocKey, ...],
    brought: tuple[DocKey, ...],
    tells: bool = True,  # noqa: FBT001, FBT002  # part of a key
) -> Written:
    """The part of a commit that is watched. The observation of a run goes along only if its result does."""
    commit = outcome.commit
    chosen = [index for index, each in enumerate(commit.operations) if each.doc in docs]
    seen = commit.seen if tells else None
    if seen is not None:
        seen = (chosen.index(seen[0]), seen[1]) if seen[0] in chosen else None
    return Written(seq, commit.session, tuple(commit.operations[index] for index in chosen), seen, brought)


def _judged(outcome: CommitOutcome | Failure) -> Judged | CommitFailed:
    number = outcome.commit.local_seq
    if type(outcome) is CommitOutcome:
        return Judged(number, outcome.verdict)
    assert isinstance(outcome, Failure)
    return CommitFailed(number, outcome.error.code, outcome.error.message)


def _linked(outcome: CommitOutcome) -> dict[DocKey, None]:
    """Documents that a commit has created, and to which it has also written a link."""
    made = {effect.doc for effect in outcome.effects if _is_made(effect)}
    found: dict[DocKey, None] = {}
    if made:
        for operation in outcome.commit.operations:
            values: list[Maybe] = []
            if type(operation) is SetDoc:
                values.append(operation.value)
            elif type(operation) is PatchDoc:
                for op in operation.ops:
                    values += (getattr(op, "value", None), getattr(op, "items", None))
            for doc in links_in(values, operation.doc):
                if doc in made:
                    found[doc] = None
    return found


def _is_made(effect: Effect) -> bool:
    return effect.before is ABSENT and effect.after is not ABSENT


def links_in(values: Iterable[Maybe], at: DocKey) -> Iterator[DocKey]:
    """The documents of the same space that links in these values lead to."""
    here = Address(at)
    # A stack, with the first one on top: links come in the order in which they are read.
    left: list[Maybe] = list(values)[::-1]
    while left:
        value = left.pop()
        if is_map(value):
            if is_link(value):
                link = parse_link(value)
                if link is not None and link.space is None and link.scope not in ("user", "session"):
                    yield target(link, here).doc
                continue
            left.extend(list(value.values())[::-1])
        elif is_array(value):
            left.extend(list(value)[::-1])


def closure(
    start: Iterable[tuple[DocKey, Maybe]], load: Callable[[DocKey], Maybe], limit: int
) -> Iterator[tuple[DocKey, Maybe]]:
    """The documents that links lead to from these, recursively, nearest first; at most this many, and each once."""
    left = deque(start)
    seen = {doc for doc, _ in left}
    while left:
        doc, value = left.popleft()
        for found in links_in([value], doc):
            if found in seen:
                continue
            if limit <= 0:
                return
            limit -= 1
            seen.add(found)
            content = load(found)
            left.append((found, content))
            yield found, content
