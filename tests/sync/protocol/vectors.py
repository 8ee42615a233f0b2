"""Makes docs/protocol-vectors.json, and the examples in docs/protocol.md from it.

After a change on purpose, `python -m tests.sync.protocol.vectors` writes both anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from headwater.errors import RemoteProtocolError
from headwater.store.commit import Commit, SetDoc
from headwater.sync import frames
from headwater.sync.frames import FromClient, FromServer, Transact, checked, encode_frame, read_client, read_server
from headwater.values.codec import decode, to_json
from headwater.values.ids import DocKey, LocalSeq
from tests.sync.protocol import odd
from tests.sync.protocol.examples import BOB, FROM_CLIENT, FROM_SERVER, PLACE
from tests.sync.protocol.exchange import SPACE, STORIES, Desk, Place, Step, record

FILE: Final = Path(__file__).resolve().parents[3] / "docs" / "protocol-vectors.json"
PAGE: Final = FILE.with_name("protocol.md")
WIDTH: Final = 112
COMMAND: Final = "python -m tests.sync.protocol.vectors"

ABOUT: Final = [
    "Conformance vectors of the protocol that docs/protocol.md describes. Bytes are in hex, as one WebSocket message.",
    'JSON shows what the bytes hold; bytes in it are {"/": {"bytes@1": base64}}. Floats have a point or an exponent.',
    "frames: read and written again they are the same bytes.",
    "spelled: taken, though nobody here writes them so; `again` is how they are written.",
    "refused: `answer` is sent, with some message, and the connection closed with the code `close`. `state` is how far",
    "it had come. What a server may not send is refused by the client.",
    "denied: `answer` is sent, with some message, and the connection goes on. `can` is what the client may do.",
    "exchange, exchange of links: what a client and a server say to each other, in order. `elsewhere` is a commit of",
    "somebody else's; `lost` was sent, and did not arrive.",
]


def plain(data: bytes) -> object:
    """What the bytes hold, as JSON has it."""
    return to_json(decode(data))


def read(side: str, data: bytes) -> FromClient | FromServer:
    return read_client(data) if side == "client" else read_server(data)


def again(side: str, data: bytes) -> bytes:
    """As it is written by whoever has read it; of a commit's operations, as they are told to others."""
    frame = read(side, data)
    if isinstance(frame, Transact):
        frame = msgspec.structs.replace(frame, operations=tuple(map(checked, frame.operations)))
    return encode_frame(frame)


def desk_at(state: str, can: str = "own") -> Desk:
    """A server's end of a connection: the space is at PLACE, and the client is ann."""
    place = Place()
    for number in range(1, PLACE + 1):
        place.decide(Commit(BOB, LocalSeq(number), (SetDoc(DocKey("space/seats.log"), number),)))
    desk = Desk(place)
    if state != "new":
        desk.talk.receive(encode_frame(frames.Hello((1,))))
    if state == "open":
        desk.talk.receive(encode_frame(frames.Open(SPACE, actor="ann")))
    desk.said.clear()
    rights = ["read", "write", "own"]
    desk.rights = set(rights[: rights.index(can) + 1])
    return desk


def answer(desk: Desk, data: bytes) -> bytes:
    """The one frame that is answered."""
    desk.talk.receive(data)
    (said,) = desk.said
    return said


def without_words(trouble: bytes) -> object:
    """What programs go by: the message is for people, and may be another one tomorrow."""
    return to_json(decode(encode_frame(msgspec.structs.replace(read_server(trouble), message=""))))


def _frame(side: str, name: str, frame: FromClient | FromServer) -> dict[str, Any]:
    data = encode_frame(frame)
    return {
        "name": name,
        "from": side,
        "kind": str(type(frame).__struct_config__.tag),
        "json": plain(data),
        "hex": data.hex(),
    }


def _spelled(each: odd.Spelled) -> dict[str, Any]:
    told = again(each.side, each.data)
    return {"name": each.name, "from": each.side, "hex": each.data.hex(), "json": plain(told), "again": told.hex()}


def _refused(each: odd.Bad) -> dict[str, Any]:
    made: dict[str, Any] = {"name": each.name, "from": each.side, "state": each.state, "hex": each.data.hex()}
    if each.side == "server":
        try:
            read_server(each.data)
        except RemoteProtocolError as error:
            return made | {"error": error.code}
        raise AssertionError(f"{each.name}: a client takes it")
    desk = desk_at(each.state)
    told = answer(desk, each.data)
    assert desk.closed is not None, f"{each.name}: the connection goes on"
    return made | {"answer": without_words(told), "close": desk.closed[0]}


def _denied(each: odd.Denied) -> dict[str, Any]:
    desk = desk_at("open", each.can)
    told = answer(desk, each.data)
    assert desk.closed is None, f"{each.name}: the connection is closed"
    return {"name": each.name, "can": each.can, "hex": each.data.hex(), "answer": without_words(told)}


def _step(step: Step) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(step)
    if step.side:
        shown["json"] = plain(step.data)
    elif step.elsewhere:
        shown["json"] = plain(bytes.fromhex(step.elsewhere))
    return shown


def make() -> dict[str, Any]:
    """Everything that is in the file."""
    return {
        "about": ABOUT,
        "protocol": frames.VERSION,
        "frames": [_frame("client", *each) for each in FROM_CLIENT] + [_frame("server", *each) for each in FROM_SERVER],
        "spelled": [_spelled(each) for each in odd.SPELLED],
        "refused": [_refused(each) for each in odd.REFUSED],
        "denied": [_denied(each) for each in odd.DENIED],
        **{name: [_step(step) for step in record(name)] for name in STORIES},
    }


def text_of(vectors: dict[str, Any]) -> str:
    """One line for each vector: what has changed is seen at a glance."""
    parts = []
    for name, content in vectors.items():
        if isinstance(content, list):
            lines = ",\n".join(f"  {json.dumps(each)}" for each in content)
            parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(content)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


# --- examples in the document ---------------------------------------------------------------------------------

_EXAMPLE: Final = re.compile(r"(?<=<!-- vector: )(?P<name>[^\n]+) -->\n```json\n(?P<shown>.*?)```\n", re.DOTALL)


def fill(text: str, vectors: dict[str, Any]) -> str:
    """The document, with each example as its vector has it."""
    frames_by_name = {each["name"]: each["json"] for each in vectors["frames"]}
    return _EXAMPLE.sub(
        lambda found: f"{found['name']} -->\n```json\n{laid_out(frames_by_name[found['name']])}\n```\n", text
    )


def laid_out(value: object, indent: str = "") -> str:
    """JSON on one line if it fits there, else each entry on one of its own."""
    short = json.dumps(value)
    if len(indent) + len(short) <= WIDTH or not isinstance(value, dict | list):
        return short
    inner = indent + "  "
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {laid_out(item, inner)}" for key, item in value.items()]
    else:
        rows = [laid_out(item, inner) for item in value]
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n{inner}" + f",\n{inner}".join(rows) + f"\n{indent}{right}"


if __name__ == "__main__":
    made = make()
    FILE.write_text(text_of(made), encoding="utf-8")
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    print(f"wrote {FILE}, and the examples in {PAGE}")
