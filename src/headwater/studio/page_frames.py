"""The frames of `headwater.studio.v1`: JSON texts between a page and the server, as typed records.

A page sends `hello` first. `n` numbers the questions and deeds of a connection; the page chooses it, and never uses it
twice. Unknown fields are passed over; an unknown tag is answered with `trouble` HW402.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from headwater.errors import HeadwaterError, RemoteProtocolError
from headwater.studio.deeds import Deed
from headwater.studio.questions import Question

SUBPROTOCOL: Final = "headwater.studio.v1"


# --- from the page --------------------------------------------------------------------------------------------


class _FromPage(msgspec.Struct, frozen=True, kw_only=True, tag_field="t"):
    """A frame from a page."""


class HelloFrame(_FromPage, frozen=True, kw_only=True, tag="hello"):
    """The first frame. One of the three shows who asks."""

    code: str = ""
    """The one-time code of the printed link."""
    session: str = ""
    """The secret that an earlier `welcome` gave."""
    token: str = ""
    """At a server: the token that a person typed."""


class AskFrame(_FromPage, frozen=True, kw_only=True, tag="ask"):
    """One question, one answer."""

    n: int
    q: Question
    mark: str = ""
    """Of an earlier answer to the same question: if nothing has changed, the answer is "same"."""


class WatchFrame(_FromPage, frozen=True, kw_only=True, tag="watch"):
    """A question whose answer is followed by deltas, until `unwatch`."""

    n: int
    q: Question
    mark: str = ""


class UnwatchFrame(_FromPage, frozen=True, kw_only=True, tag="unwatch"):
    """End of the deltas of a question."""

    n: int


class DoFrame(_FromPage, frozen=True, kw_only=True, tag="do"):
    """A deed. It is carried out at most once for each `n`."""

    n: int
    deed: Deed


class OkFrame(_FromPage, frozen=True, kw_only=True, tag="ok"):
    """The last delta of a question is painted: the next may come."""

    n: int


class HideFrame(_FromPage, frozen=True, kw_only=True, tag="hide"):
    """The tab is hidden: nothing is sent and nothing recorded for it."""


class ShowFrame(_FromPage, frozen=True, kw_only=True, tag="show"):
    """The tab is visible again: every watched question is answered again if its answer has changed."""


PageFrame: TypeAlias = HelloFrame | AskFrame | WatchFrame | UnwatchFrame | DoFrame | OkFrame | HideFrame | ShowFrame


# --- from the server ------------------------------------------------------------------------------------------


class _FromServer(msgspec.Struct, frozen=True, kw_only=True, tag_field="t"):
    """A frame from the server."""


class WelcomeFrame(_FromServer, frozen=True, kw_only=True, tag="welcome"):
    """The answer to `hello`."""

    session: str
    """The secret for the next `hello` of this tab; kept in `sessionStorage`."""
    actor: str
    rights: str
    """read, write or own."""
    read_only: bool = False
    title: str = ""
    """What is shown: a file, a folder or a server."""
    place: str = ""
    """file, folder, program or server."""
    spaces: tuple[str, ...] = ()
    """The spaces that questions may name; the first is meant by a question that names none."""
    can: tuple[str, ...] = ()
    """Tags of the questions and deeds that are possible here and allowed."""
    cannot: dict[str, str] = {}
    """Tags of deeds that are not possible, with the reason in a sentence: for the title of a disabled button."""
    version: str = ""
    """Of Headwater."""


class AnswerFrame(_FromServer, frozen=True, kw_only=True, tag="answer", omit_defaults=True):
    """The answer to `ask`, and the first one to `watch`."""

    n: int
    mark: str = ""
    """Differs if anything has changed."""
    seq: int = 0
    """The newest commit that was seen."""
    at_ms: int = 0
    """The time of the answer; of a closed file, of its last closing."""
    live: str = "live"
    """live: a program has the space open. closed: none has. ended: the program that was watched has ended. server."""
    busy: str = ""
    """The function that has been running for more than 300 ms; empty: none."""
    same: bool = False
    """Nothing has changed since `mark`: there is no record."""
    record: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class DeltaFrame(_FromServer, frozen=True, kw_only=True, tag="delta", omit_defaults=True):
    """A change of a watched answer. Wait for the paint, then send `ok`.

    The record is a whole new answer, except for `graph`: there it is a `GraphDelta` as long as `structure` stays.
    """

    n: int
    mark: str = ""
    seq: int = 0
    at_ms: int = 0
    live: str = "live"
    busy: str = ""
    partial: bool = False
    """The record changes the last one, and does not replace it (`GraphDelta`)."""
    record: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Missing: the last record stays, and only the other fields have changed."""


class DoneFrame(_FromServer, frozen=True, kw_only=True, tag="done"):
    """A deed was carried out. The record is a `Report`."""

    n: int
    record: msgspec.Raw


class TroubleFrame(_FromServer, frozen=True, kw_only=True, tag="trouble", omit_defaults=True):
    """A question or deed was refused: then nothing was done."""

    n: int = 0
    """0: it is about the connection."""
    code: str = ""
    """HW..."""
    kind: str = ""
    """The class of the error: `Conflict` of a deed on something that moved on is ConflictError."""
    message: str = ""
    path: str = ""
    """Where in a value it does not fit, as `items/3/title`."""


class GoneFrame(_FromServer, frozen=True, kw_only=True, tag="gone"):
    """The connection is about to be closed by the server."""

    reason: str
    """session, revoked, stopped, limit."""
    message: str


ServerFrame: TypeAlias = WelcomeFrame | AnswerFrame | DeltaFrame | DoneFrame | TroubleFrame | GoneFrame

_page: Final[msgspec.json.Decoder[PageFrame]] = msgspec.json.Decoder(PageFrame)
_server: Final[msgspec.json.Decoder[ServerFrame]] = msgspec.json.Decoder(ServerFrame)
_encoder: Final = msgspec.json.Encoder()


def read_page_frame(text: str | bytes) -> PageFrame:
    """The frame of a page. Raises RemoteProtocolError (HW402)."""
    try:
        return _page.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the frame of the page is not understood: {error}") from None


def read_server_frame(text: str | bytes) -> ServerFrame:
    """The frame of a server: for tests and for relays."""
    return _server.decode(text)


def frame_text(frame: ServerFrame | PageFrame) -> str:
    """The text of a frame."""
    return _encoder.encode(frame).decode()


def raw(record: object) -> msgspec.Raw:
    """A record in a frame."""
    return msgspec.Raw(_encoder.encode(record))


def trouble_of(error: HeadwaterError, n: int = 0) -> TroubleFrame:
    """What a page shows of an error, in the words of the engine."""
    path = error.facts.get("path", "")
    if isinstance(path, tuple | list):
        path = "/".join(map(str, path))
    return TroubleFrame(n=n, code=error.code, kind=type(error).__name__, message=error.message, path=str(path or ""))
