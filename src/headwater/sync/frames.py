"""The frames of the protocol, and their bytes.

A frame is a MessagePack map with its kind under `t`. Unknown fields are ignored, so that either side may be newer;
fields without a default are required. Values are those of documents, in the same codec (`values.codec`).
`docs/protocol.md` describes the frames; the examples there are made from these records.

The frame of a client has one spelling: each number, text, list and map in its shortest form, floats in 64 bits, no
duplicate key in a map. So two programs that read the same bytes find the same values.

Length: every frame in one place, as in docs/protocol.md.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from headwater.errors import AddressError, HeadwaterError, RemoteProtocolError
from headwater.store.collection_record import KeyMove
from headwater.store.commit import (
    DeleteDoc,
    NewObservation,
    Operation,
    PatchDoc,
    PendingRead,
    Precondition,
    Read,
    Seen,
    SetDoc,
    SpanRead,
    Verdict,
)
from headwater.store.wellformed import check_doc, check_operation
from headwater.values.author_text import text_of
from headwater.values.codec import adopt, flatten
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.patch import (
    Carried,
    PatchOp,
    adopt_patch,
)
from headwater.values.tree import ABSENT, Maybe, Path, freeze
from headwater.values.value_limits import INT_MAX

VERSION: Final = 1
"""The version of the wire format. It is raised when an old client or server would misread a frame."""

FAR: Final = "far"
"""The extension for programs that use several spaces: `opened` has the id and the lineage of the space."""

RULES: Final = "rules"
"""The extension for rules of collections: `opened` says that roles allow writes, and an owner may force a commit."""

SPANS: Final = "spans"
"""The extension for queries: spans of indexes are watched, and commits name the spans that they have read."""

INSPECT: Final = "inspect"
"""The extension for looking at functions: an owner asks, at the server, a program that has the space open."""

EXTENSIONS: Final = (FAR, RULES, SPANS, INSPECT)
"""The extensions that this version knows, as named in `hello` and `welcome`."""

SUBPROTOCOL: Final = "headwater.v1"
"""The WebSocket subprotocol. A peer that does not offer it is not a Headwater client."""

WireNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A place in the log, or the number of a commit or request. An invalid number is refused when it is read."""


class _Frame(msgspec.Struct, frozen=True, tag_field="t", omit_defaults=True, gc=False):
    """The base of all frames."""


# --- from the client ------------------------------------------------------------------------------------------


class Hello(_Frame, frozen=True, tag="hello"):
    """The first frame: the client, and the versions it speaks."""

    versions: tuple[int, ...]
    client: str = ""
    can: tuple[str, ...] = ()
    """The extensions that the client knows. A frame or field of one is sent only if both sides name it."""


class Proof(msgspec.Struct, frozen=True, gc=False):
    """The proof that the client has the private key of a public one: its signature of the server's challenge."""

    key: bytes
    signature: bytes
    expires: WireNumber


class Open(_Frame, frozen=True, tag="open"):
    """Open a space. With `session` and `resume`, continue the session of an earlier connection."""

    space: str
    branch: BranchId = MAIN
    actor: str = ""
    session: SessionId = SessionId("")
    resume: bytes = b""
    create: bool = True
    proof: Proof | None = None
    attempt: WireNumber = 0
    """How often this client has connected: of two connections with the same `resume`, the later one wins."""
    inspect: bool = False
    """The program answers questions of owners about its functions. Only if both sides can `inspect`."""


class Transact(_Frame, frozen=True, tag="transact"):
    """A commit. Its actor and branch are known from `open`; `number` is its place in the session."""

    number: WireNumber
    operations: tuple[Operation, ...] = ()
    reads: tuple[Read, ...] = ()
    rests: tuple[PendingRead, ...] = ()
    conditions: tuple[Precondition, ...] = ()
    seen: Seen | None = None
    notes: tuple[tuple[DocKey, bytes, tuple[Read, ...], tuple[PendingRead, ...]], ...] = ()
    force: bool = False
    """Store values that do not fit the types of their collection. Only if both sides can `rules`, and by an owner."""
    spans: tuple[SpanRead, ...] = ()
    """What was read of indexes. Only if both sides can `spans`; so is `note_spans`."""
    note_spans: tuple[tuple[SpanRead, ...], ...] = ()
    """What the runs of `notes` have read of indexes, one element for each note; empty if none of them has."""


class Watch(_Frame, frozen=True, tag="watch"):
    """Send these documents, and from then on the operations on them. Answered by `docs`.

    Each has the seq at which the client has it: an unchanged document is not sent. `at` asks for the documents at that
    place, if the log still has it; later changes are sent as well. `prefixes` selects all documents whose keys begin
    so. `follow` is the most documents that are sent because links lead to them. `room` is the most bytes of documents
    that are sent without being named, by prefix or by link; 0: as many as one answer may have.
    """

    number: WireNumber
    docs: tuple[tuple[DocKey, WireNumber], ...] = ()
    prefixes: tuple[str, ...] = ()
    at: WireNumber | None = None
    follow: WireNumber = 0
    room: WireNumber = 0


class Unwatch(_Frame, frozen=True, tag="unwatch"):
    """Stop watching these documents."""

    docs: tuple[DocKey, ...] = ()
    prefixes: tuple[str, ...] = ()


class Pull(_Frame, frozen=True, tag="pull"):
    """As `watch`, but only once."""

    number: WireNumber
    docs: tuple[DocKey, ...] = ()
    prefixes: tuple[str, ...] = ()
    at: WireNumber | None = None
    follow: WireNumber = 0


class AskObservations(_Frame, frozen=True, tag="kept?"):
    """Ask for the observations of runs whose results begin so, with the seqs of their reads and of these documents.

    Without a prefix: only the latter.
    """

    number: WireNumber
    prefix: str = ""
    besides: tuple[DocKey, ...] = ()


class AskChanged(_Frame, frozen=True, tag="changed?"):
    """Ask whether one of these places of a document changed after a seq. The bool: only its shape."""

    number: WireNumber
    doc: DocKey
    places: tuple[tuple[Path, bool], ...]
    after: WireNumber


class PutObservations(_Frame, frozen=True, tag="notes"):
    """The observations of runs without writes: as with `transact`, but without a commit."""

    notes: tuple[tuple[DocKey, bytes, tuple[Read, ...], tuple[PendingRead, ...]], ...]
    gone: tuple[DocKey, ...] = ()
    """Rows to delete."""
    spans: tuple[tuple[SpanRead, ...], ...] = ()
    """As `note_spans` of `transact`."""


class WatchSpan(_Frame, frozen=True, tag="span"):
    """Send the keys `lo <= key < hi` of an index, and from then on the moves of documents there. Answered by `keys`.

    `limit`: at most so many keys, from `lo` upwards, or from `hi` downwards with `reverse`; 0: none, only watch.
    `docs`: so many documents of the first keys are sent and watched, with at most `room` bytes; 0: as many as an answer
    may have. If any are asked for, so is each document that enters the span later.

    `at`: what has changed in the span since this place is sent, too. `known`: the client has the keys as of there, and
    they are not sent. All of this is of the extension `spans`.
    """

    number: WireNumber
    index: str
    lo: bytes
    hi: bytes
    limit: WireNumber | None = None
    reverse: bool = False
    docs: WireNumber = 0
    room: WireNumber = 0
    at: WireNumber | None = None
    known: bool = False


class Unspan(_Frame, frozen=True, tag="unspan"):
    """Stop watching spans, by the numbers of the questions for them."""

    spans: tuple[WireNumber, ...]


class SeenSpan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A span that a stored run has read, and the fields that it has read of the documents there."""

    index: str
    lo: bytes
    hi: bytes
    fields: tuple[str, ...] = ()


class AskShifted(_Frame, frozen=True, tag="shifted?"):
    """Ask which documents have changed in spans: for each row, in any of its spans after its place."""

    number: WireNumber
    rows: tuple[tuple[tuple[SeenSpan, ...], WireNumber], ...]


class LookAnswer(_Frame, frozen=True, tag="seen"):
    """The answer to `look`: JSON, as of the page `inspect` of a server. Of the extension `inspect`."""

    number: WireNumber
    answer: str


class Ack(_Frame, frozen=True, tag="ack"):
    """Everything up to this seq is applied."""

    seq: WireNumber


class Ping(_Frame, frozen=True, tag="ping"):
    """Answered by `pong`, after the answers to everything before it."""

    number: WireNumber


class Bye(_Frame, frozen=True, tag="bye"):
    """The client will not come back: the server can delete its session."""


FromClient: TypeAlias = (
    Hello
    | Open
    | Transact
    | Watch
    | Unwatch
    | Pull
    | AskObservations
    | AskChanged
    | PutObservations
    | WatchSpan
    | Unspan
    | AskShifted
    | LookAnswer
    | Ack
    | Ping
    | Bye
)


# --- from the server ------------------------------------------------------------------------------------------


class Welcome(_Frame, frozen=True, tag="welcome"):
    """The answer to `hello`: the version that is used from here on, and the challenge for a key."""

    version: int
    server: str
    nonce: bytes
    audience: str
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    can: tuple[str, ...] = ()
    """The extensions that the server knows."""


class SpaceOpened(_Frame, frozen=True, tag="opened"):
    """The answer to `open`. After a lost connection, `resume` proves who owns the session."""

    space: str
    session: SessionId
    resume: bytes
    seq: WireNumber
    actor: str
    can: str
    last: WireNumber = 0
    """The newest decided commit of this session."""
    id: str = ""
    """The id of the space. Like the lineage, only if both sides can `far`."""
    lineage: bytes = b""
    writes: bool = False
    """A session that can `read` may write what the rules of collections allow its roles. If both sides can `rules`."""


class FoundDoc(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A document at a seq. Without a `value`, it does not exist."""

    doc: DocKey
    seq: Seq
    value: tuple[Carried, ...] = ()

    @property
    def content(self) -> Maybe:
        """The content of the document."""
        return adopt(self.value[0]) if self.value else ABSENT


class Docs(_Frame, frozen=True, tag="docs"):
    """The answer to `watch` and `pull`. From the place `seq` on, `news` has the operations on watched documents.

    `newer`: documents of `docs` that were sent at an earlier place, with their current content. Not `complete`: there
    are more documents than may be watched, and the prefix is not watched. `left`: documents with a watched prefix that
    did not fit into `room`. They are not sent, and the client asks for one by its key before it reads it.
    """

    number: WireNumber
    seq: Seq
    docs: tuple[FoundDoc, ...] = ()
    newer: tuple[FoundDoc, ...] = ()
    complete: bool = True
    left: tuple[DocKey, ...] = ()


class Written(msgspec.Struct, frozen=True, tag="w", tag_field="t", omit_defaults=True, gc=False):
    """A commit of another session: its operations on watched documents.

    `brought`: documents that are watched from now on, because the commit has created them and linked to them, or
    because they have entered a watched span: then a `set` has their whole value.

    `moves`: the keys of its documents in indexes, before and after, as far as they are in watched spans of the session.
    Only if both sides can `spans`.
    """

    seq: Seq
    session: SessionId
    operations: tuple[Operation, ...]
    seen: Seen | None = None
    brought: tuple[DocKey, ...] = ()
    moves: tuple[KeyMove, ...] = ()


class Judged(msgspec.Struct, frozen=True, tag="v", tag_field="t", gc=False):
    """The verdict on a commit of the client."""

    number: LocalSeq
    verdict: Verdict


class CommitFailed(msgspec.Struct, frozen=True, tag="f", tag_field="t", gc=False):
    """A commit of the client could not be decided: nothing of it is stored."""

    number: LocalSeq
    code: str
    message: str


New: TypeAlias = Written | Judged | CommitFailed


class News(_Frame, frozen=True, tag="news"):
    """Verdicts and commits, in the order of the log, up to the place `seq`. They are applied as one step."""

    seq: Seq
    news: tuple[New, ...]


class Observations(_Frame, frozen=True, tag="kept"):
    """The answer to `kept?`. For each document, its seq and whether it exists; None: not known."""

    number: WireNumber
    seq: Seq
    rows: tuple[tuple[DocKey, Seq, bytes], ...]
    places: dict[DocKey, tuple[Seq, bool] | None]
    inherited: tuple[DocKey, ...] = ()


class Changed(_Frame, frozen=True, tag="changed"):
    """The answer to `changed?`."""

    number: WireNumber
    changed: bool


class SpanKeys(_Frame, frozen=True, tag="keys"):
    """The answer to `span`. From the place `seq` on, `news` has the moves in the part of the span that is known now.

    That part reaches up to `end`, exclusive; with `reverse`, down to `end`, inclusive; no bytes: it is the whole span.
    `keys` are in the order in which they were asked for.

    With the requested `at`, `gone` and `came` are the keys that this part has lost and got since then. Without it,
    they are not known, and `keys` is complete. `docs` and `newer` are as in the frame `docs`, as of the `at` of a
    question without `known`.
    """

    number: WireNumber
    seq: Seq
    keys: tuple[bytes, ...] = ()
    end: bytes = b""
    at: WireNumber | None = None
    gone: tuple[bytes, ...] = ()
    came: tuple[bytes, ...] = ()
    docs: tuple[FoundDoc, ...] = ()
    newer: tuple[FoundDoc, ...] = ()


class Shifted(_Frame, frozen=True, tag="shifted"):
    """The answer to `shifted?`: of each row, the changed documents; the record of a collection if it is not known."""

    number: WireNumber
    seq: Seq
    rows: tuple[tuple[DocKey, ...], ...]


class Look(_Frame, frozen=True, tag="look"):
    """A question about the functions of the program, as JSON. Answered by `seen`. Of the extension `inspect`.

    Sent only to a program that allows it in `open`. `actor`: who asks. The questions are those of the page `inspect`.
    """

    number: WireNumber
    question: str
    actor: str = ""


class Pong(_Frame, frozen=True, tag="pong"):
    """The answer to `ping`."""

    number: WireNumber


class ErrorFrame(_Frame, frozen=True, tag="trouble"):
    """A request was refused. `number` is its number; 0: the error is of the whole connection."""

    code: str
    message: str
    number: WireNumber = 0
    again: bool = False
    """Whether the same request may succeed later."""


FromServer: TypeAlias = (
    Welcome | SpaceOpened | Docs | News | Observations | Changed | SpanKeys | Shifted | Look | Pong | ErrorFrame
)

# --- bytes ----------------------------------------------------------------------------------------------------

_encoder: Final = msgspec.msgpack.Encoder(enc_hook=flatten)
_from_client: Final[msgspec.msgpack.Decoder[FromClient]] = msgspec.msgpack.Decoder(FromClient)
_from_server: Final[msgspec.msgpack.Decoder[FromServer]] = msgspec.msgpack.Decoder(FromServer)
_plain: Final = msgspec.msgpack.Decoder()
_again: Final = msgspec.msgpack.Encoder()


_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError, OverflowError)
"""The errors of the decoder; the last two for times that no calendar has."""


def encode_frame(frame: FromClient | FromServer) -> bytes:
    """The bytes of a frame."""
    return _encoder.encode(frame)


def read_client(data: bytes | memoryview) -> FromClient:
    """Decode a frame of a client, which may send anything. Raises RemoteProtocolError."""
    try:
        frame = _from_client.decode(data)
        # With a duplicate key, or a longer form than necessary, the bytes of the encoded frame differ.
        has_one_spelling = _again.encode(_plain.decode(data)) == data
    except _UNREADABLE as wrong:
        raise RemoteProtocolError(f"this is no frame of a client: {_shown(wrong)}") from None
    if not has_one_spelling:
        message = "a frame has one spelling: no key of a map twice, the shortest form of everything, floats in 64 bits"
        raise RemoteProtocolError(f"this is no frame of a client: {message}")
    return frame


def read_server(data: bytes | memoryview) -> FromServer:
    """Decode a frame of a server. Raises RemoteProtocolError."""
    try:
        return _from_server.decode(data)
    except _UNREADABLE as wrong:
        raise RemoteProtocolError(f"this is no frame of a server: {_shown(wrong)}") from None


def _shown(wrong: Exception) -> str:
    return text_of(wrong)[:200] if not isinstance(wrong, RecursionError) else "it is nested too deep"


def checked(operation: Operation) -> Operation:
    """An operation of a client, after the check that it can be stored. Raises RemoteProtocolError."""
    try:
        check_doc(operation.doc)
        match operation:
            case SetDoc(doc, value):
                operation = SetDoc(doc, freeze(value))
            case PatchDoc(doc, ops):
                operation = PatchDoc(doc, tuple(map(_checked_patch, ops)))
            case DeleteDoc():
                pass
        check_operation(operation)
    except HeadwaterError as refused:
        raise RemoteProtocolError(f"an operation cannot be stored: {refused.message}") from None
    return operation


def _checked_patch(op: PatchOp) -> PatchOp:
    for step in op.path:
        if type(step) is int and not 0 <= step <= INT_MAX:
            raise AddressError(f"{step} is no index")
    return adopt_patch(op, freeze)


def note_fields(note: NewObservation) -> tuple[DocKey, bytes, tuple[Read, ...], tuple[PendingRead, ...]]:
    """The fields of an observation in a frame, without the owner, which is known."""
    return note.doc, note.body, note.basis.reads, note.basis.pending_reads
