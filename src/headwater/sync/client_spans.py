"""The spans of indexes that a client session watches, over all of its connections."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from headwater.errors import HeadwaterError, QueryError
from headwater.sync.client_listener import Item, arrived, documents_of, known_part, pulled, up_to
from headwater.sync.client_port import ClientPort
from headwater.sync.frames import SPANS, SpanKeys, Unspan, WatchSpan
from headwater.values.ids import BranchId, Seq


class SessionSpans:
    """The known parts of spans, by number; and what is to be learned of them after a lost connection."""

    def __init__(self, line: ClientPort, space: str, branch: BranchId) -> None:
        self._line = line
        self._space = space
        self._branch = branch
        # The extensions that the server knows.
        self.can: tuple[str, ...] = ()
        self.known: dict[int, WatchSpan] = {}
        # The place up to which each was known when the connection was lost.
        self._at: dict[int, Seq] = {}
        # Those that had no key: perhaps because the session may not read them, which may change while it is away.
        self._empty: set[int] = set()
        # They are to be asked for when the missed documents have come; and the answers that are missing.
        self._is_due = False
        self._open: set[int] = set()

    @property
    def is_behind(self) -> bool:
        """Whether something that was missed has not arrived."""
        return self._is_due or bool(self._open)

    @property
    def are_answered(self) -> bool:
        """Whether the server answers questions about spans."""
        return SPANS in self.can

    def awaits(self, number: int) -> bool:
        """Whether the answer about a known span is missing."""
        return number in self._open

    def refusal(self) -> QueryError:
        """The error for a server that does not."""
        message = (
            f"the server of space {self._space!r} does not answer queries: its version is older than that of this "
            "program. Update the server, or open the file of the space"
        )
        return QueryError(message, space=self._space)

    # -- connections ---------------------------------------------------------------------------------------

    def lost(self, seq: Seq, *, was_complete: bool) -> None:
        """The connection is lost. If everything had been learned, all are known up to here."""
        if was_complete:
            self._at = dict.fromkeys(self.known, seq)
        self._open.clear()
        self._is_due = False

    def rejoin(self) -> None:
        """There is a new connection: they are to be asked for."""
        self._is_due = bool(self.known)

    def ask_again(self, seq: Seq) -> list[Item]:
        """Ask for what has changed in each, after the answers with documents, which must not be ahead of keys."""
        if not self._is_due:
            return []
        self._is_due = False
        items: list[Item] = []
        for number, span in list(self.known.items()):
            if self.are_answered:
                self._open.add(number)
                self._line.send(self._again(number, span, seq))
            else:
                items += self.lose(number, self.refusal())
        return items

    def _again(self, number: int, span: WatchSpan, seq: Seq) -> WatchSpan:
        limit = 0 if span.limit == 0 else None
        return replace(span, limit=limit, at=self._at.get(number, seq), known=number not in self._empty)

    def lose(self, number: int, error: HeadwaterError) -> list[Item]:
        """One is not known any more."""
        self._open.discard(number)
        span = self.known.pop(number, None)
        return [] if span is None else [arrived(span, None, error)]

    # -- answers -------------------------------------------------------------------------------------------

    def take_missed(self, keys: SpanKeys, seq: Seq) -> list[Item]:
        """What has changed in a known span while there was no connection."""
        known = self.known[keys.number]
        asked = self._again(keys.number, known, seq)
        self._open.discard(keys.number)
        self._at[keys.number] = keys.seq
        self._narrow(known, keys, is_whole=not asked.known or keys.at is None)
        return [*documents_of(keys), arrived(asked, keys), up_to(keys.seq, self._branch)]

    def take(self, asked: WatchSpan, keys: SpanKeys) -> list[Item]:
        """The answer to a question. A reader that waits has the documents as of the place that it has named."""
        self._narrow(replace(asked, at=None, known=False), keys, is_whole=not asked.known)
        docs = [] if asked.at is not None else documents_of(keys)
        return [*docs, *pulled(keys.newer), arrived(asked, keys), up_to(keys.seq, self._branch)]

    def _narrow(self, span: WatchSpan, keys: SpanKeys, *, is_whole: bool) -> None:
        lo, hi = known_part(span, keys)
        self.known[keys.number] = replace(span, number=keys.number, lo=lo, hi=hi)
        if keys.keys or keys.came:
            self._empty.discard(keys.number)
        elif is_whole and span.limit != 0:
            self._empty.add(keys.number)

    def release(self, numbers: Iterable[int], *, is_live: bool) -> None:
        """Stop watching some."""
        gone = tuple([number for number in numbers if self.known.pop(number, None) is not None])
        self._empty.difference_update(gone)
        # One whose answer is on its way is released when it arrives.
        sent = tuple([number for number in gone if number not in self._open])
        self._open.difference_update(gone)
        if is_live and sent and not self._is_due:
            self._line.send(Unspan(sent))
