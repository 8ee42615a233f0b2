"""Spans over sockets: pages of many clients while others write, rights, and what ends a watch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

import headwater as hw
from headwater.access.audit_check import examine
from headwater.access.rights import Right
from headwater.server.server import Server
from headwater.store.collection_record import record_of, user_prefix
from headwater.store.commit import SetDoc, SpanRead
from headwater.sync.frames import (
    EXTENSIONS,
    SUBPROTOCOL,
    AskShifted,
    Docs,
    ErrorFrame,
    FromClient,
    FromServer,
    Hello,
    Open,
    Ping,
    Pong,
    SeenSpan,
    Shifted,
    SpanKeys,
    Transact,
    Watch,
    WatchSpan,
    encode_frame,
    read_server,
)
from headwater.values.ids import MAIN, DocKey, Seq
from headwater.values.sortkey import AFTER, encode_field
from headwater.values.tree import freeze
from tests.server.running import DEADLINE_S, settle_in
from tests.support.limits import small_limits
from tests.sync.span_server import SpanClient

BY_STATE = "order#state,number"
OPEN = encode_field("open"), encode_field("open") + AFTER
FIRST = 1 << 48
SECRET = "salt-in-the-soup"  # noqa: S105  # a text to look for


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


class Order(hw.Doc):
    number: int
    state: str


class Recipe(hw.Doc):
    text: str


class Draft(hw.Doc):
    text: str


@pytest.fixture
def shop(server: Server) -> Server:
    """A server with orders; recipes, which only cooks may read; and drafts of users."""
    app = hw.App("shop")
    app.collection(Order, indexes=[(Order.state, Order.number)], unique=[Order.number])
    app.collection(Recipe, indexes=[Recipe.text], rules=[hw.allow("cook", read=True)])
    app.collection(Draft, scope="user", indexes=[Draft.text])
    with app.open(f"{server.url}/shop") as space:
        Recipe(text=SECRET)
        space.sync()
    return server


def token(server: Server, *roles: str, actor: str = "eve", can: Right = Right.OWN) -> str:
    made, _ = server.access.create(space="shop", can=can, actor=actor, roles=roles)
    return made


class Wire:
    """A client's end of a socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.said: deque[bytes] = deque()
        # Everything that came.
        self.heard: list[bytes] = []
        self.watched: dict[DocKey, None] = {}

    def ask(self, frame: FromClient) -> None:
        self._socket.send(encode_frame(frame))

    def hear(self) -> FromServer:
        data = self._socket.recv(timeout=DEADLINE_S)
        assert isinstance(data, bytes)
        self.said.append(data)
        self.heard.append(data)
        return read_server(data)

    def hear_until(self, kind: type[FromServer]) -> Any:  # type: ignore[valid-type]  # a union
        """Hear until a frame of a kind."""
        while True:
            found = self.hear()
            if type(found) is kind:
                return found
            assert kind is Pong or not isinstance(found, ErrorFrame), found

    def hear_of(self, text: bytes) -> None:
        """Hear until a frame has this text."""
        while not any(text in each for each in self.heard):
            self.hear()

    def catch_up(self) -> None:
        """Hear everything that was sent before now."""
        self.ask(Ping(FIRST + 10**6))
        self.hear_until(Pong)

    def closed_with(self) -> int:
        with pytest.raises(ConnectionClosed) as caught:
            while True:
                self.hear()
        assert caught.value.rcvd is not None
        return caught.value.rcvd.code


@contextmanager
def wire(server: Server, *roles: str, actor: str = "eve", can: Right = Right.OWN) -> Iterator[Wire]:
    headers = {"Authorization": f"Bearer {token(server, *roles, actor=actor, can=can)}"}
    with connect(f"{server.url}/", subprotocols=[Subprotocol(SUBPROTOCOL)], additional_headers=headers) as socket:
        made = Wire(socket)
        made.ask(Hello((1,), can=EXTENSIONS))
        made.hear()
        made.ask(Open("shop"))
        made.hear()
        made.said.clear()
        yield made


class Page(SpanClient):
    """A client that shows a page, and knows only its frames."""

    def __init__(self, at: Wire) -> None:
        self.seq = Seq(0)
        self.wire = at  # type: ignore[assignment]  # a real one
        self.spans, self._asked, self.docs, self.answers, self.brought = {}, {}, {}, [], []
        self._number = self.continued = self.not_continued = 0
        self.has_room = False

    def page(self, *, limit: int, at: int | None = None) -> SpanKeys:
        self.ask(BY_STATE, *OPEN, limit=limit, docs=limit, at=at)
        self.wire.hear_until(SpanKeys)  # type: ignore[attr-defined]  # as above
        self.read()
        found = [each for each in self.answers if isinstance(each, SpanKeys)][-1]
        self.answers.clear()
        return found


def order(number: int, state: str = "open") -> SetDoc:
    return SetDoc(DocKey(f"space/order:{number:06}"), freeze({"number": number, "state": state}))


def keys_now(server: Server, lo: bytes, hi: bytes) -> list[bytes]:
    assert server.spaces is not None
    storage = server.spaces.channels["shop"].storage
    return storage.call(lambda engine: engine.collections.span(MAIN, BY_STATE, lo, hi))


def write(server: Server, numbers: range, started: threading.Event) -> None:
    """Insert orders, pay some, and delete some."""
    with wire(server, actor="bob") as writer:
        for count, number in enumerate(numbers, 1):
            operations = [order(number * 7919 % 100_000)]
            if count % 3 == 0:
                operations.append(order(numbers[count - 2] * 7919 % 100_000, "paid"))
            writer.ask(Transact(count, tuple(operations)))
            started.set()
        writer.catch_up()
        # All verdicts have come when the last one has.
        heard = 0
        while heard < len(numbers):
            heard = sum(data.count(b"committed") for data in writer.heard)
            if heard < len(numbers):
                writer.hear()


def test_pages_of_fifty_clients_are_those_of_a_fresh_query_while_others_insert(shop: Server) -> None:
    with ExitStack() as stack:
        pages = [Page(stack.enter_context(wire(shop))) for _ in range(50)]
        first = pages[0].page(limit=66)
        assert first.keys == ()
        started = threading.Event()
        writers = [
            threading.Thread(target=write, args=(shop, range(start, start + 150), started)) for start in (1, 1001)
        ]
        for each in writers:
            each.start()
        started.wait(60)
        compared = 0
        for page in pages:
            page.page(limit=10)
            (known,) = list(page.spans.values())[-1:]
            again = page.page(limit=10)
            # What the first page has become by news is what the same question is answered with at that place.
            lo, hi = known.lo, min(known.hi, list(page.spans.values())[-1].hi)
            assert [key for key in known.keys if lo <= key < hi] == [key for key in again.keys if key < hi]
            compared += bool(again.keys)
        for each in writers:
            each.join(120)
            assert not each.is_alive()
        assert compared
        for page in pages:
            page.wire.catch_up()  # type: ignore[attr-defined]  # a real one
            page.read()
            for known in page.spans.values():
                assert known.keys == keys_now(shop, known.lo, known.hi)
        assert len(pages[0].spans[next(iter(pages[0].spans))].keys) == 200


def test_records_of_collections_are_watched_as_any_document(shop: Server) -> None:
    with wire(shop, can=Right.READ) as reader, wire(shop) as owner:
        reader.ask(Watch(FIRST, (), ("space/collection:",)))
        found = reader.hear_until(Docs)
        records = {each.doc: record_of(each.doc, each.content) for each in found.docs}
        assert sorted(record.kind for record in records.values()) == ["draft", "order", "recipe"]
        assert BY_STATE in {each.name for each in records[DocKey("space/collection:order")].named}
        changed = records[DocKey("space/collection:order")].to_value()
        owner.ask(Transact(1, (SetDoc(DocKey("space/collection:order"), {**changed, "more": 1}),)))  # type: ignore[dict-item]
        owner.catch_up()
        reader.heard.clear()
        reader.hear_of(b"collection:order")


def test_duplicate_of_a_unique_value_is_told(shop: Server) -> None:
    with wire(shop) as writer:
        writer.ask(Transact(1, (order(7),)))
        writer.ask(Transact(2, (SetDoc(DocKey("space/order:other"), freeze({"number": 7, "state": "open"})),)))
        writer.catch_up()
        writer.hear_of(b"HW215")


def test_commit_conflicts_with_a_page_that_has_changed(shop: Server) -> None:
    with wire(shop) as one, wire(shop) as other:
        one.ask(WatchSpan(FIRST, BY_STATE, *OPEN))
        at = one.hear_until(SpanKeys).seq
        other.ask(Transact(1, (order(1),)))
        other.hear_of(b"committed")
        one.ask(Transact(1, (order(2),), spans=(SpanRead(BY_STATE, *OPEN, at),)))
        one.hear_of(b"conflict")


# --- rights ---------------------------------------------------------------------------------------------------


def test_nothing_of_a_hidden_collection_is_in_any_frame_and_the_attempt_is_audited(shop: Server, store: Path) -> None:
    index = "recipe#text"
    with wire(shop, "courier", can=Right.READ) as reader, wire(shop) as owner:
        at = owner_head(owner)
        for number in range(3):
            reader.ask(WatchSpan(FIRST + number, index, b"", AFTER, docs=9, at=at))
            found = reader.hear_until(SpanKeys)
            assert found == SpanKeys(FIRST + number, found.seq)
        reader.ask(WatchSpan(FIRST + 8, "recipe#", b"", AFTER))
        reader.hear_until(SpanKeys)
        reader.ask(AskShifted(FIRST + 9, (((SeenSpan(index, b"", AFTER),), 0),)))
        shifted = reader.hear_until(Shifted)
        assert shifted.rows == (("space/collection:recipe",),)
        owner.ask(Transact(1, (SetDoc(DocKey("space/recipe:new"), freeze({"text": SECRET})),)))
        owner.hear_of(b"committed")
        reader.catch_up()
        assert not any(SECRET.encode() in each or b"recipe:" in each for each in reader.heard)
    denied = [each for each in examine(store).entries if each.event == "denied"]
    assert [each.facts["asked"] for each in denied] == ["span recipe"]
    with wire(shop, "cook", can=Right.READ) as cook:
        cook.ask(WatchSpan(FIRST, index, b"", AFTER, docs=9))
        found = cook.hear_until(SpanKeys)
        assert len(found.keys) == len(found.docs) == 2


def owner_head(owner: Wire) -> int:
    owner.ask(WatchSpan(FIRST, "recipe#", b"", AFTER, limit=0))
    return int(owner.hear_until(SpanKeys).seq)


def test_keys_of_another_user_are_not_told(shop: Server, store: Path) -> None:
    index, bob = "draft#text", user_prefix("bob")
    with wire(shop, actor="bob") as writer, wire(shop, actor="eve") as reader:
        writer.ask(Transact(1, (SetDoc(DocKey("user:bob/draft:a"), freeze({"text": SECRET})),)))
        writer.hear_of(b"committed")
        for number, (lo, hi) in enumerate([(bob, bob + AFTER), (b"", AFTER)]):
            reader.ask(WatchSpan(FIRST + number, index, lo, hi, docs=9))
            assert reader.hear_until(ErrorFrame).code == "HW403"
        writer.ask(WatchSpan(FIRST, index, bob, bob + AFTER, docs=9))
        # It has the document: it has written it.
        assert len(writer.hear_until(SpanKeys).keys) == 1
        writer.ask(Transact(2, (SetDoc(DocKey("user:bob/draft:b"), freeze({"text": SECRET})),)))
        writer.catch_up()
        reader.catch_up()
        assert SECRET.encode() not in b"".join(reader.heard)
    denied = [each for each in examine(store).entries if each.event == "denied"]
    assert [each.facts["asked"] for each in denied] == ["span"]


def test_a_change_of_rules_ends_the_connections_with_spans(shop: Server) -> None:
    with wire(shop, "cook", can=Right.READ) as cook, wire(shop) as owner:
        cook.ask(WatchSpan(FIRST, "recipe#text", b"", AFTER, docs=9))
        assert cook.hear_until(SpanKeys).keys
        owner.ask(Watch(FIRST, ((DocKey("space/collection:recipe"), 2**62),)))
        record = dict(owner.hear_until(Docs).docs[0].content)
        hiding: Any = {**record, "rules": [{"role": "nobody", "read": True}]}
        owner.ask(Transact(1, (SetDoc(DocKey("space/collection:recipe"), freeze(hiding)),)))
        assert cook.closed_with() == 1012
    with wire(shop, "cook", can=Right.READ) as cook:
        cook.ask(WatchSpan(FIRST, "recipe#text", b"", AFTER, docs=9))
        assert not cook.hear_until(SpanKeys).keys


# --- ends and limits ------------------------------------------------------------------------------------------


def test_dropping_an_index_ends_the_connections_that_watch_it(shop: Server) -> None:
    with wire(shop) as watcher, wire(shop) as bystander, wire(shop) as owner:
        watcher.ask(WatchSpan(FIRST, BY_STATE, *OPEN))
        watcher.hear_until(SpanKeys)
        bystander.ask(WatchSpan(FIRST, "order#", b"", AFTER))
        bystander.hear_until(SpanKeys)
        owner.ask(Watch(FIRST, ((DocKey("space/collection:order"), 2**62),)))
        record = dict(owner.hear_until(Docs).docs[0].content)
        less = {**record, "indexes": record["indexes"][1:]}
        assert len(less["indexes"]) == len(record["indexes"]) - 1
        owner.ask(Transact(1, (SetDoc(DocKey("space/collection:order"), freeze(less)),)))
        assert watcher.closed_with() == 1012
        bystander.catch_up()
    with wire(shop) as again:
        again.ask(WatchSpan(FIRST, BY_STATE, *OPEN))
        found = again.hear_until(ErrorFrame)
        assert (found.code, found.again) == ("HW120", False)


def test_too_many_spans_are_refused_and_the_others_stay(shop: Server) -> None:
    with small_limits(SPANS_MAX=5), wire(shop) as client:
        for number in range(5):
            client.ask(WatchSpan(FIRST + number, BY_STATE, *OPEN))
            client.hear_until(SpanKeys)
        for number in range(5, 200):
            client.ask(WatchSpan(FIRST + number, BY_STATE, *OPEN))
        client.catch_up()
        refused = [read_server(data) for data in client.heard if b"trouble" in data]
        assert len(refused) == 195
        assert {each.code for each in refused if isinstance(each, ErrorFrame)} == {"HW406"}


def test_a_malformed_span_ends_the_connection_and_no_other(shop: Server) -> None:
    with wire(shop) as odd, wire(shop) as other:
        odd.ask(WatchSpan(FIRST, BY_STATE, OPEN[1], OPEN[0]))
        assert odd.closed_with() == 4400
        other.catch_up()
