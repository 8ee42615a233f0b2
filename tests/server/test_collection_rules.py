"""Rules of collections at a server: what a session may write and read is decided by the roles of its token."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headwater as hw
from headwater.access.audit_check import examine
from headwater.access.rights import Right
from headwater.client.remote_replica import RemoteReplica
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_link import Credentials
from headwater.client.server_url import parse_server
from headwater.errors import AccessError, RuleError
from headwater.inspect.document_records import ListDocuments
from headwater.inspect.envelope import VERSION, Request
from headwater.server.server import Server
from headwater.server.spaces.server_socket import ServerSocket
from headwater.store.browsing import keys
from headwater.store.commit import Committed, DeleteDoc, Operation, PatchDoc, Refused, SetDoc
from headwater.sync.frames import AskChanged, Pull, Watch
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey
from headwater.values.patch import Increment, Replace
from headwater.values.tree import ABSENT, Maybe, freeze
from tests.server.running import pages, settle_in, until

SECRET = "salt-in-the-soup"  # noqa: S105  # a text to look for


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


class Order(hw.Doc):
    number: int
    seller: str = ""
    state: str = "open"
    cents: int = 0
    tags: hw.List[str] = hw.List()


class Recipe(hw.Doc):
    text: str


class Shop:
    """Orders with a rule for each kind of role; recipes, which only cooks may read."""

    def __init__(self, *more: Any) -> None:
        self.app = hw.App("shop")
        self.orders = self.app.collection(
            Order,
            indexes=[Order.state],
            owner=Order.seller,
            rules=[
                hw.allow("clerk", read=True, create=True, write=True, delete=True),
                hw.allow("courier", read=True, write=[Order.state]),
                hw.allow("seller", read=True, create="own", write="own", delete="own"),
                hw.allow("box", create=True),
                *more,
            ],
        )
        self.recipes = self.app.collection(Recipe, rules=[hw.allow("cook", read=True, write=True)])
        self.note = self.app.cell("note", "")


def token(server: Server, *roles: str, can: Right = Right.READ, actor: str | None = "eve") -> str:
    made, _ = server.access.create(space="shop", can=can, actor=actor, any_actor=actor is None, roles=roles)
    return made


@contextmanager
def session(server: Server, token: str | None, actor: str = "") -> Iterator[RemoteReplica]:
    storage = RemoteStorage(parse_server(server.url, "shop"), Credentials(token=token), actor=actor)
    try:
        yield storage.attach()
    finally:
        storage.close()


@pytest.fixture
def shop(server: Server) -> Server:
    """A server with the shop: one order of ann, one recipe."""
    made = Shop()
    with made.app.open(f"{server.url}/shop") as space:
        Order(number=1, seller="ann")
        Recipe(text=SECRET)
        space.sync()
    return server


def docs(server: Server, kind: str) -> list[DocKey]:
    assert server.spaces is not None
    channel = server.spaces.channels["shop"]
    return channel.storage.call(lambda engine: list(keys(engine, MAIN, f"space/{kind}:")))


def try_commit(replica: RemoteReplica, *operations: Operation) -> Any:
    """Its verdict, or the error."""
    pending = replica.commit(list(operations))
    replica.sync()
    return pending.verdict if pending.verdict is not None else pending.error


def now(replica: RemoteReplica, doc: DocKey) -> Maybe:
    replica.refresh()
    return replica.read(doc)


def order(server: Server) -> DocKey:
    return docs(server, "order")[0]


def replace(doc: DocKey, field: str, value: Any) -> PatchDoc:
    return PatchDoc(doc, (Replace((field,), freeze(value)),))


# --- types ----------------------------------------------------------------------------------------------------


def test_a_value_of_a_wrong_type_is_refused_with_its_place(shop: Server) -> None:
    with session(shop, None) as replica:
        replica.read(order(shop))
        for operation, place, expected, found in [
            (replace(order(shop), "number", "seven"), "/number", "expected int", "'seven'"),
            (replace(order(shop), "tags", [1]), "/tags/0", "expected str", "1"),
            (SetDoc(DocKey("space/order:new"), freeze({"state": "open"})), "/number", "missing", "no default"),
            (SetDoc(DocKey("space/order:new"), freeze(7)), "order:new", "expected", "another value"),
        ]:
            verdict = try_commit(replica, operation)
            assert isinstance(verdict, Refused)
            assert verdict.code == "HW216"
            for part in (place, expected, found):
                assert part in verdict.reason
        assert isinstance(try_commit(replica, replace(order(shop), "number", 7)), Committed)


def test_an_owner_may_force_a_value(shop: Server) -> None:
    with session(shop, None) as replica:
        replica.read(order(shop))
        replica.force()
        assert isinstance(try_commit(replica, replace(order(shop), "number", "seven")), Committed)
    with session(shop, token(shop, "clerk", can=Right.WRITE)) as replica:
        replica.read(order(shop))
        # What does not fit does not keep anyone from writing another field.
        assert isinstance(try_commit(replica, replace(order(shop), "state", "paid")), Committed)
        replica.force()
        assert isinstance(try_commit(replica, replace(order(shop), "cents", "none")), AccessError)


# --- writing --------------------------------------------------------------------------------------------------


def test_a_courier_writes_the_fields_of_the_rule_and_no_other(shop: Server) -> None:
    with session(shop, token(shop, "courier")) as replica:
        doc = order(shop)
        replica.read(doc)
        assert isinstance(try_commit(replica, replace(doc, "state", "sent")), Committed)
        for operation in (
            replace(doc, "cents", 5),
            DeleteDoc(doc),
            SetDoc(DocKey("space/order:x"), freeze({"number": 1})),
        ):
            verdict = try_commit(replica, operation)
            assert isinstance(verdict, Refused)
            assert verdict.code == "HW216"
            assert "courier" in verdict.reason
        other = try_commit(replica, SetDoc(doc_key("shop.note"), "hello"))
        assert isinstance(other, Refused)
        assert other.code == "HW403"
        assert replica.read(doc)["state"] == "sent"  # type: ignore[call-overload, index]
        assert replica.read(doc)["cents"] == 0  # type: ignore[call-overload, index]


def test_a_refusal_is_in_the_audit_log_once(shop: Server, store: Path) -> None:
    with session(shop, token(shop, "courier")) as replica:
        replica.read(order(shop))
        for cents in (1, 2):
            try_commit(replica, replace(order(shop), "cents", cents))
    denied = [each for each in examine(store).entries if each.event == "denied"]
    assert len(denied) == 1
    assert "cents" in str(denied[0].facts["why"])


def test_an_owner_field_decides_before_and_after(shop: Server) -> None:
    doc = order(shop)
    with session(shop, token(shop, "seller", actor="ann"), "ann") as replica:
        replica.read(doc)
        assert isinstance(try_commit(replica, replace(doc, "cents", 5)), Committed)
        assert isinstance(try_commit(replica, replace(doc, "seller", "bob")), Refused)
        own = SetDoc(DocKey("space/order:a"), freeze({"number": 2, "seller": "ann"}))
        assert isinstance(try_commit(replica, own), Committed)
        assert isinstance(
            try_commit(replica, SetDoc(DocKey("space/order:b"), freeze({"number": 2, "seller": "bob"}))), Refused
        )
    with session(shop, token(shop, "seller", actor="bob"), "bob") as replica:
        replica.read(doc)
        assert isinstance(try_commit(replica, replace(doc, "cents", 6)), Refused)
        assert isinstance(try_commit(replica, DeleteDoc(doc)), Refused)
        # Not by making it one's own.
        assert isinstance(try_commit(replica, replace(doc, "seller", "bob")), Refused)


def test_a_right_to_write_does_not_reach_into_a_collection_with_rules(shop: Server) -> None:
    with session(shop, token(shop, can=Right.WRITE)) as replica:
        assert isinstance(try_commit(replica, SetDoc(doc_key("shop.note"), "hello")), Committed)
        verdict = try_commit(replica, SetDoc(DocKey("space/order:x"), freeze({"number": 1})))
        assert isinstance(verdict, AccessError | Refused)
        record = try_commit(replica, DeleteDoc(DocKey("space/collection:order")))
        assert isinstance(record, Refused)
        assert record.code == "HW403"


def test_a_session_without_a_role_writes_nothing(shop: Server) -> None:
    with session(shop, token(shop)) as replica:
        assert isinstance(try_commit(replica, SetDoc(DocKey("space/order:x"), freeze({"number": 1}))), AccessError)


# --- reading --------------------------------------------------------------------------------------------------


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Everything that servers send."""
    sent: list[bytes] = []
    inner = ServerSocket.push

    def push(self: ServerSocket, data: bytes) -> None:
        sent.append(data)
        inner(self, data)

    monkeypatch.setattr(ServerSocket, "push", push)
    return sent


def test_nothing_of_a_hidden_collection_is_in_any_frame(shop: Server, frames: list[bytes]) -> None:
    recipe = docs(shop, "recipe")[0]
    with session(shop, token(shop, "courier")) as replica, session(shop, None) as owner:
        owner.read(recipe)
        frames.clear()
        assert replica.read(recipe) is ABSENT
        assert replica.read(order(shop)) is not ABSENT
        link = replica._storage.link  # type: ignore[attr-defined]
        link.ask(Pull(0, (recipe,), ("space/",)))
        link.ask(Watch(0, ((recipe, 0),), ("space/",)))
        link.ask(AskChanged(0, recipe, (((), False),), 0))
        seen = b"".join(frames)
        assert SECRET.encode() not in seen
        frames.clear()
        for text in ("one", "two"):
            assert isinstance(try_commit(owner, replace(recipe, "text", f"{SECRET} {text}")), Committed)
        made = SetDoc(DocKey("space/recipe:new"), freeze({"text": SECRET}))
        assert isinstance(try_commit(owner, made, replace_note()), Committed)
        until(lambda: now(replica, doc_key("shop.note")) == "done", "the note")
        of_reader = [each for each in frames if b"done" in each]
        assert of_reader
        assert all(b"recipe:new" not in each and SECRET.encode() not in each for each in of_reader)
        # It can neither be written nor asked about by conditions.
        assert isinstance(try_commit(replica, SetDoc(recipe, freeze({"text": "x"}))), AccessError)


def replace_note() -> Operation:
    return SetDoc(doc_key("shop.note"), "done")


def test_a_cook_reads_what_is_hidden_from_others(shop: Server) -> None:
    recipe = docs(shop, "recipe")[0]
    with session(shop, token(shop, "cook")) as replica:
        assert replica.read(recipe) == {"text": SECRET}
        assert replica.read(order(shop)) is ABSENT


def test_pages_about_a_space_do_not_show_a_hidden_collection(shop: Server) -> None:
    recipe = docs(shop, "recipe")[0].removeprefix("space/")
    for roles, is_shown in (((), False), (("cook",), True)):
        with pages(shop, token(shop, *roles)) as asking:
            request = Request(v=VERSION, ask=ListDocuments(prefix=""))
            headers = {"content-type": "application/json"}
            answer = asking.post("/spaces/shop/inspect", content=msgspec.json.encode(request), headers=headers)
            assert answer.status_code == 200, answer.text
            assert (recipe in answer.text) == is_shown


def test_a_change_of_rules_reaches_sessions_that_are_open(shop: Server) -> None:
    doc = order(shop)
    with session(shop, None) as owner, session(shop, token(shop, "courier")) as replica:
        assert replica.read(doc) is not ABSENT
        record = owner.read(DocKey("space/collection:order"))
        hiding: Any = {**record, "rules": [{"role": "clerk", "read": True}]}  # type: ignore[dict-item]
        assert isinstance(try_commit(owner, SetDoc(DocKey("space/collection:order"), freeze(hiding))), Committed)
        until(lambda: now(replica, doc) is ABSENT, "it is hidden")
        owner.read(doc)
        assert isinstance(try_commit(owner, replace(doc, "state", "paid")), Committed)
        assert isinstance(try_commit(owner, SetDoc(DocKey("space/collection:order"), record)), Committed)  # type: ignore[arg-type]
        until(lambda: now(replica, doc) is not ABSENT, "it is shown again")
        assert replica.read(doc)["state"] == "paid"  # type: ignore[call-overload, index]


# --- programs -------------------------------------------------------------------------------------------------


def test_a_program_with_a_role_is_told_and_rolled_back(shop: Server) -> None:
    made = Shop()
    with made.app.open(f"{shop.url}/shop", token=token(shop, "courier")) as space:
        mine = space.doc(order(shop).removeprefix("space/"), Order)
        mine.state = "sent"
        space.sync()
        mine.cents = 9
        assert mine.cents == 9
        with pytest.raises(RuleError, match="may not write its field 'cents'"):
            space.sync()
        assert mine.cents == 0
        assert mine.state == "sent"


def test_results_of_a_program_with_a_role_are_kept_locally(shop: Server) -> None:
    made = Shop()
    doc = order(shop).removeprefix("space/")

    @made.app.computed
    def shout() -> str:
        return made.note.value.upper()

    @made.app.handler
    def deliver(state: str) -> None:
        space.doc(doc, Order).state = state

    with made.app.open(f"{shop.url}/shop", token=token(shop, "courier")) as space:
        assert shout() == ""
        deliver.send("gone").result("10s")
        space.sync()
        assert space.doc(doc, Order).state == "gone"
    with session(shop, None) as owner:
        assert owner.read(DocKey("space/shop.shout")) is ABSENT
        assert owner.read(order(shop))["state"] == "gone"  # type: ignore[call-overload, index]


def test_an_opening_without_own_that_declares_more_asks_for_a_deployment(shop: Server) -> None:
    more = hw.App("more")

    class Extra(hw.Doc):
        name: str

    more.collection(Extra)
    with (
        pytest.raises(AccessError, match="headwater collections deploy"),
        more.open(f"{shop.url}/shop", token=token(shop, can=Right.WRITE)),
    ):
        pass
    with more.open(f"{shop.url}/shop"):
        pass
    with more.open(f"{shop.url}/shop", token=token(shop, can=Right.WRITE)):
        pass


def test_an_opening_changes_no_rules(shop: Server, caplog: pytest.LogCaptureFixture) -> None:
    loose = Shop(hw.allow("thief", read=True, write=True))
    with loose.app.open(f"{shop.url}/shop"):
        pass
    assert "headwater collections deploy" in caplog.text
    with session(shop, token(shop, "thief")) as replica:
        assert replica.read(order(shop)) is ABSENT


def test_a_write_made_offline_and_refused_later_is_rolled_back_and_told(shop: Server, tmp_path: Path) -> None:
    made = Shop()
    doc = order(shop).removeprefix("space/")
    given = token(shop, "courier")
    local = tmp_path / "local"
    with made.app.open(f"{shop.url}/shop", token=given, local=local) as space:
        mine = space.doc(doc, Order)
        assert mine.cents == 0
        assert shop.spaces is not None
        channel = shop.spaces.channels["shop"]
        for connection in list(channel.connections.values()):
            channel._loop.call_soon_threadsafe(connection.talk.turned_away, "away")
        mine.cents = 9
        mine.state = "sent"
        with pytest.raises(RuleError, match="cents"):
            space.sync()
        assert mine.cents == 0


# --- fuzzed commits against a small evaluator of the table ----------------------------------------------------


def is_same(one: RemoteReplica, other: RemoteReplica, doc: DocKey) -> bool:
    one.refresh()
    other.refresh()
    return one.read(doc) == other.read(doc)


TABLE: dict[str, dict[str, Any]] = {
    "clerk": {"create": True, "write": True, "delete": True},
    "courier": {"write": {"state"}},
    "seller": {"create": "own", "write": "own", "delete": "own"},
    "box": {"create": True},
}


def expected(roles: list[str], actor: str, before: Maybe, after: Maybe) -> bool:
    """Whether the table allows it."""
    own_before = before is not ABSENT and before["seller"] == actor  # type: ignore[call-overload, index]
    own_after = after is not ABSENT and after["seller"] == actor  # type: ignore[call-overload, index]
    if before is ABSENT or after is ABSENT:
        verb = "create" if before is ABSENT else "delete"
        is_own = own_after if before is ABSENT else own_before
        return any(TABLE[role].get(verb) is True or (TABLE[role].get(verb) == "own" and is_own) for role in roles)
    changed = {name for name in after if before[name] != after[name]}  # type: ignore[call-overload, index, union-attr]
    if any(
        TABLE[r].get("write") is True or (TABLE[r].get("write") == "own" and own_before and own_after) for r in roles
    ):
        return True
    fields = {name for role in roles if isinstance(each := TABLE[role].get("write"), set) for name in each}
    return changed <= fields


@pytest.mark.parametrize("roles", [["clerk"], ["courier"], ["seller"], ["courier", "seller"]], ids="+".join)
def test_fuzzed_commits_are_decided_as_the_table_says(shop: Server, roles: list[str]) -> None:
    rng = random.Random("+".join(roles))
    counts = {True: 0, False: 0}
    with session(shop, None) as owner, session(shop, token(shop, *roles, actor="ann"), "ann") as replica:
        for number in range(4):
            seller = "ann" if number % 2 else "bob"
            first = {"number": 0, "seller": seller, "state": "open", "cents": 0}
            assert isinstance(try_commit(owner, SetDoc(DocKey(f"space/order:f{number}"), freeze(first))), Committed)
        for step in range(40):
            doc = DocKey(f"space/order:f{rng.randrange(4)}")
            value = {
                "number": rng.randrange(2),
                "seller": rng.choice(["ann", "bob"]),
                "state": rng.choice(["open", "paid"]),
                "cents": rng.randrange(2),
            }
            replica.read(doc)
            owner.read(doc)
            until(lambda: is_same(owner, replica, doc), "the same document at both")  # noqa: B023
            before = owner.read(doc)
            operation: Operation
            match rng.randrange(4):
                case 0:
                    operation, after = SetDoc(doc, freeze(value)), freeze(value)
                case 1 if before is not ABSENT:
                    operation, after = DeleteDoc(doc), ABSENT  # type: ignore[assignment]
                case 2 if before is not ABSENT:
                    operation = PatchDoc(doc, (Increment(("cents",), 1),))
                    after = freeze({**before, "cents": before["cents"] + 1})  # type: ignore[call-overload, dict-item, index, operator]
                case _ if before is not ABSENT:
                    field = rng.choice(list(value))
                    operation = replace(doc, field, value[field])
                    after = freeze({**before, field: value[field]})  # type: ignore[dict-item]
                case _:
                    operation, after = SetDoc(doc, freeze(value)), freeze(value)
            wanted = before == after or expected(roles, "ann", before, after)
            verdict = try_commit(replica, operation)
            assert isinstance(verdict, Committed) == wanted, (step, roles, before, operation, verdict)
            counts[wanted] += 1
            if not wanted and rng.random() < 0.5:
                try_commit(owner, SetDoc(doc, freeze(value)))
    assert counts[True] > 0
    assert (counts[False] > 0) == ("clerk" not in roles)
