"""The frames of the protocol, and their bytes.

A frame is a MessagePack map, its kind under `t`. Fields that are not known are passed over, so that either side may be
newer; what has no default must be there. Values are those of documents, in the one codec (`values.codec`). The frames
are described for others in docs/protocol.md; the examples there are made from these records.

What a client sends has one spelling: each number, text, list and map in its shortest form, floats in 64 bits, no key of
a map twice. So no two programs that read the same bytes find different things in them.

Length: every frame in one place, as in docs/protocol.md.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from headwater.errors import AddressError, HeadwaterError, RemoteProtocolError
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
"""Of the wire format. Raised when an old client, or an old server, would misread a frame."""

SUBPROTOCOL: Final = "headwater.v1"
"""The WebSocket subprotocol: a peer that does not offer it is no client of ours."""

WireNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A place in the log, or the number of a commit or a question. What is no such number is refused when it is read."""


class _Frame(msgspec.Struct, frozen=True, tag_field="t", omit_defaults=True, gc=False):
    """What all have in common."""


# --- from the client ------------------------------------------------------------------------------------------


class Hello(_Frame, frozen=True, tag="hello"):
    """The first frame: who this is, and which versions it speaks."""

    versions: tuple[int, ...]
    client: str = ""


class Proof(msgspec.Struct, frozen=True, gc=False):
    """That the client has the private key of a public one: its signature of the server's challenge."""

    key: bytes
    signature: bytes
    expires: WireNumber


class Open(_Frame, frozen=True, tag="open"):
    """Take part in a space; with `session` and `resume`, go on with what an earlier connection began."""

    space: str
    branch: BranchId = MAIN
    actor: str = ""
    session: SessionId = SessionId("")
    resume: bytes = b""
    create: bool = True
    proof: Proof | None = None
    attempt: WireNumber = 0
    """How often this client has come: of two connections that show the same `resume`, the later one is meant."""


class Transact(_Frame, frozen=True, tag="transact"):
    """A commit. Who asks for it, and on which branch, is known from `open`; `number` is its place in the session."""

    number: WireNumber
    operations: tuple[Operation, ...] = ()
    reads: tuple[Read, ...] = ()
    rests: tuple[PendingRead, ...] = ()
    conditions: tuple[Precondition, ...] = ()
    seen: Seen | None = None
    notes: tuple[tuple[DocKey, bytes, tuple[Read, ...], tuple[PendingRead, ...]], ...] = ()


class Watch(_Frame, frozen=True, tag="watch"):
    """Send these documents, and from then on what is done to them. Answered by `docs`.

    Each with the seq that the client has it from: what has not changed since is not sent. `at`: as they
    were at that place, if the log still tells; what is newer is sent besides. `prefixes` are all documents whose keys
    begin so; `follow` as many of those that links lead to, at most.
    """

    number: WireNumber
    docs: tuple[tuple[DocKey, WireNumber], ...] = ()
    prefixes: tuple[str, ...] = ()
    at: WireNumber | None = None
    follow: WireNumber = 0


class Unwatch(_Frame, frozen=True, tag="unwatch"):
    """Of these no more."""

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
    """What is stored of runs whose results begin so, and how new what they read is; and how new these documents are.

    Without a prefix: only the latter.
    """

    number: WireNumber
    prefix: str = ""
    besides: tuple[DocKey, ...] = ()


class AskChanged(_Frame, frozen=True, tag="changed?"):
    """Whether one of these places of a document was changed after a seq; the bool: only its shape."""

    number: WireNumber
    doc: DocKey
    places: tuple[tuple[Path, bool], ...]
    after: WireNumber


class PutObservations(_Frame, frozen=True, tag="notes"):
    """What runs have read that had nothing to write: as with `transact`, on their own."""

    notes: tuple[tuple[DocKey, bytes, tuple[Read, ...], tuple[PendingRead, ...]], ...]
    gone: tuple[DocKey, ...] = ()
    """Of whom nothing is to be kept any more."""


class Ack(_Frame, frozen=True, tag="ack"):
    """Everything up to this seq is taken in."""

    seq: WireNumber


class Ping(_Frame, frozen=True, tag="ping"):
    """Answered by `pong`, after the answers to everything before it."""

    number: WireNumber


class Bye(_Frame, frozen=True, tag="bye"):
    """The client will not come back: what the server holds for it can go."""


FromClient: TypeAlias = (
    Hello | Open | Transact | Watch | Unwatch | Pull | AskObservations | AskChanged | PutObservations | Ack | Ping | Bye
)


# --- from the server ------------------------------------------------------------------------------------------


class Welcome(_Frame, frozen=True, tag="welcome"):
    """The answer to `hello`: the version that is spoken from here on, and what a key has to sign."""

    version: int
    server: str
    nonce: bytes
    audience: str
    limits: dict[str, int] = msgspec.field(default_factory=dict)


class SpaceOpened(_Frame, frozen=True, tag="opened"):
    """The answer to `open`. `resume` proves, after the connection was lost, whose session it is."""

    space: str
    session: SessionId
    resume: bytes
    seq: WireNumber
    actor: str
    can: str
    last: WireNumber = 0
    """The newest commit of this session that was decided."""


class FoundDoc(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A document as of a seq; nothing in `value`: it does not exist."""

    doc: DocKey
    seq: Seq
    value: tuple[Carried, ...] = ()

    @property
    def content(self) -> Maybe:
        """What it holds."""
        return adopt(self.value[0]) if self.value else ABSENT


class Docs(_Frame, frozen=True, tag="docs"):
    """The answer to `watch` and `pull`. From the place `seq` on, `news` tells what is done to what is watched.

    `newer`: those of `docs` that were sent as of an earlier place, as they are now. Not `complete`: there are more
    documents than may be watched, and what was asked for by prefix is not watched.
    """

    number: WireNumber
    seq: Seq
    docs: tuple[FoundDoc, ...] = ()
    newer: tuple[FoundDoc, ...] = ()
    complete: bool = True


class Written(msgspec.Struct, frozen=True, tag="w", tag_field="t", omit_defaults=True, gc=False):
    """A commit of another session: its operations on watched documents.

    `brought`: documents that were not, and are from now on: the commit has made them, and linked to them.
    """

    seq: Seq
    session: SessionId
    operations: tuple[Operation, ...]
    seen: Seen | None = None
    brought: tuple[DocKey, ...] = ()


class Judged(msgspec.Struct, frozen=True, tag="v", tag_field="t", gc=False):
    """What became of a commit of the client's own."""

    number: LocalSeq
    verdict: Verdict


class CommitFailed(msgspec.Struct, frozen=True, tag="f", tag_field="t", gc=False):
    """A commit of the client's own could not be decided: nothing of it was kept."""

    number: LocalSeq
    code: str
    message: str


New: TypeAlias = Written | Judged | CommitFailed


class News(_Frame, frozen=True, tag="news"):
    """What was decided, in the order of the log, up to the place `seq`: taken in as one step."""

    seq: Seq
    news: tuple[New, ...]


class Observations(_Frame, frozen=True, tag="kept"):
    """The answer to `kept?`. A place: how new a document is, and whether it exists; None: not known."""

    number: WireNumber
    seq: Seq
    rows: tuple[tuple[DocKey, Seq, bytes], ...]
    places: dict[DocKey, tuple[Seq, bool] | None]
    inherited: tuple[DocKey, ...] = ()


class Changed(_Frame, frozen=True, tag="changed"):
    """The answer to `changed?`."""

    number: WireNumber
    changed: bool


class Pong(_Frame, frozen=True, tag="pong"):
    """The answer to `ping`."""

    number: WireNumber


class ErrorFrame(_Frame, frozen=True, tag="trouble"):
    """Something that was asked for is not done. `number` is that of the question; 0: the connection as a whole."""

    code: str
    message: str
    number: WireNumber = 0
    again: bool = False
    """Whether the same may succeed later."""


FromServer: TypeAlias = Welcome | SpaceOpened | Docs | News | Observations | Changed | Pong | ErrorFrame

# --- bytes ----------------------------------------------------------------------------------------------------

_encoder: Final = msgspec.msgpack.Encoder(enc_hook=flatten)
_from_client: Final[msgspec.msgpack.Decoder[FromClient]] = msgspec.msgpack.Decoder(FromClient)
_from_server: Final[msgspec.msgpack.Decoder[FromServer]] = msgspec.msgpack.Decoder(FromServer)
_plain: Final = msgspec.msgpack.Decoder()
_again: Final = msgspec.msgpack.Encoder()


_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError, OverflowError)
"""What the decoder raises; the last two for times that no calendar has."""


def encode_frame(frame: FromClient | FromServer) -> bytes:
    """As it travels."""
    return _encoder.encode(frame)


def read_client(data: bytes | memoryview) -> FromClient:
    """A frame of a client's, who may send anything. Raises RemoteProtocolError."""
    try:
        frame = _from_client.decode(data)
        # A key that is there twice, and what is longer than it need be, does not come out again as it was.
        has_one_spelling = _again.encode(_plain.decode(data)) == data
    except _UNREADABLE as wrong:
        raise RemoteProtocolError(f"this is no frame of a client: {_shown(wrong)}") from None
    if not has_one_spelling:
        message = "a frame has one spelling: no key of a map twice, the shortest form of everything, floats in 64 bits"
        raise RemoteProtocolError(f"this is no frame of a client: {message}")
    return frame


def read_server(data: bytes | memoryview) -> FromServer:
    """A frame of a server's. Raises RemoteProtocolError."""
    try:
        return _from_server.decode(data)
    except _UNREADABLE as wrong:
        raise RemoteProtocolError(f"this is no frame of a server: {_shown(wrong)}") from None


def _shown(wrong: Exception) -> str:
    return text_of(wrong)[:200] if not isinstance(wrong, RecursionError) else "it is nested too deep"


def checked(operation: Operation) -> Operation:
    """An operation that a client has sent, once it is known that it can be stored. Raises RemoteProtocolError."""
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
    """A note as it travels: whose it is, is known."""
    return note.doc, note.body, note.basis.reads, note.basis.pending_reads
