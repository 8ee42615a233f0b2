"""Attacks 31, 32, 34 to 36 and 39 to 41, and what one user can learn of another by answers and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.store.commit import (
    Absent,
    Committed,
    DeleteDoc,
    OriginCommitted,
    PatchDoc,
    PendingRead,
    Read,
    Refused,
    SetDoc,
    ValueIs,
)
from headwater.store.observations import encode_observation
from headwater.sync.frames import (
    AskChanged,
    AskObservations,
    Docs,
    ErrorFrame,
    News,
    Observations,
    Ping,
    Pong,
    Pull,
    PutObservations,
    Transact,
    Watch,
    Written,
)
from headwater.values.codec import digest
from headwater.values.ids import DocKey, LocalSeq, Seq
from headwater.values.patch import Add, Replace
from tests.system.attacks.raw import ClosedError, Raw, knock
from tests.system.attacks.served import Served, doc

UNKNOWN = "there is no such space, or it may not be used with this token or key"
SECRET = "the name of the rose"  # noqa: S105  # a value
BOBS = doc("diary", "user:bob")


def refusal(raw: Raw, frame: Any) -> ErrorFrame:
    raw.say(frame)
    found = raw.hear()
    assert isinstance(found, ErrorFrame), found
    return found


def settled(raw: Raw) -> list[Any]:
    """Everything that is told until now."""
    raw.heard.clear()
    raw.say(Ping(1 << 40))
    raw.expect(Pong)
    return raw.heard


# --- 31, 32, 36 -----------------------------------------------------------------------------------------------


def test_a_space_that_may_not_be_read_is_answered_like_one_that_is_not_there(served: Served) -> None:
    mine, theirs = served.space(), served.space()
    served.fill(theirs, a=1)
    token = served.token(mine, "read")
    answers = []
    for space in (theirs, "there is none", mine):
        with Raw.upgrade(served.port, token) as raw:
            raw.greet()
            with pytest.raises(ClosedError) as refused:
                raw.open(space)
            answers.append((refused.value.code, refused.value.reason, refused.value.troubles))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 4403
    assert answers[0][2][0].message == UNKNOWN


def test_who_may_read_writes_nothing(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    body = encode_observation(b"code", [(doc("a"), (), 0)])
    with served.enter(space, "read") as raw:
        assert raw.opened is not None
        assert raw.opened.can == "read"
        for frame in (Transact(1, (SetDoc(doc("a"), 2),)), Transact(2, ()), Transact(3, (DeleteDoc(doc("a")),))):
            found = refusal(raw, frame)
            assert (found.code, found.number) == ("HW403", frame.number)
        # What runs have read is kept for others: that is a way of writing, too.
        raw.say(PutObservations(((doc("a"), body, (), ()),), (doc("a"),)))
        settled(raw)
    with served.enter(space) as owner:
        assert owner.opened is not None
        assert owner.opened.seq == 1
        owner.say(AskObservations(1, "space/"))
        assert owner.expect(Observations).rows == ()


@pytest.mark.parametrize("can", ["read", "write"])
def test_a_space_that_is_not_there_is_made_by_its_owner_only(served: Served, can: str) -> None:
    space = served.space()
    before = set(served.folder.iterdir())
    with pytest.raises(ClosedError) as refused:
        served.enter(space, can)
    assert (refused.value.code, refused.value.troubles[-1].message) == (4403, UNKNOWN)
    assert {path for path in served.folder.iterdir() if path.suffix == ".db"} <= before
    served.fill(space, a=1)
    with served.enter(space, can) as raw:
        assert raw.opened is not None


# --- 34, 35 ---------------------------------------------------------------------------------------------------

LOOKS = ["access", "acl", "owners", "space", "grants", "access.json", "permissions", "meta"]


@pytest.mark.parametrize("name", LOOKS)
def test_a_document_that_looks_like_rights_has_no_effect(served: Served, name: str) -> None:
    space, other = served.space(), served.space()
    served.fill(space, a=1)
    served.fill(other, a=1)
    everybody: Any = {"*": "own", "bob": "own", "owner": "*", "grants": [{"space": "*", "can": "own"}]}
    reader, stranger = served.token(space, "read", "bob"), served.token(other, "read", "eve")
    with served.enter(space, "write", "ann") as raw:
        assert isinstance(raw.write(1, SetDoc(doc(name), everybody), SetDoc(doc("a"), 2)), Committed)
        with Raw.into(served.port, reader, space) as bob:
            assert bob.opened is not None
            assert bob.opened.can == "read"
            assert bob.write(1, SetDoc(doc("a"), 3)).code == "HW403"
        with pytest.raises(ClosedError):
            Raw.into(served.port, stranger, space)
        # Nor can it be taken away from whoever owns it.
        assert isinstance(raw.write(2, SetDoc(doc(name), {"*": "none"})), Committed)
        assert isinstance(raw.write(3, DeleteDoc(doc(name))), Committed)
    with served.enter(space) as owner:
        assert owner.opened is not None
        assert owner.opened.can == "own"


@pytest.mark.parametrize("kind", ["grant", "access", "token", "own", "revoke", "acl"])
def test_there_is_no_frame_that_changes_rights(served: Served, kind: str) -> None:
    from msgspec.msgpack import encode  # only here

    before = (served.folder / "access.json").read_bytes()
    with served.enter(served.space()) as owner:
        before = (served.folder / "access.json").read_bytes()
        owner.say(encode({"t": kind, "space": "*", "can": "own", "actor": "eve", "number": 1}))
        assert owner.closed().code == 4400
    assert (served.folder / "access.json").read_bytes() == before


def test_the_file_of_rights_is_no_space(served: Served) -> None:
    with Raw.into(served.port, served.token("*"), "access.json") as raw:
        assert raw.opened is not None
        assert raw.opened.seq == 0
    assert knock(served.port, served.token("*")) == 101


# --- 40 -------------------------------------------------------------------------------------------------------


def test_what_a_client_says_of_itself_in_a_commit_is_passed_over(served: Served) -> None:
    from msgspec.msgpack import encode  # only here

    space = served.space()
    served.fill(space, a=1)
    forged = {
        "t": "transact",
        "number": 1,
        "operations": [["set", "space/a", 2]],
        "session": "somebody else's",
        "actor": "root",
        "branch": "other",
        "seq": 999,
        "at": 0,
        "node": "n1",
        "causes": ["x"],
        "label": "public",
    }
    with served.enter(space, "write", "ann") as ann, served.enter(space, "read", "bob") as bob:
        bob.say(Watch(1, ((doc("a"), 0),)))
        bob.expect(Docs)
        ann.say(encode(forged))
        assert ann.verdict(1) == Committed(Seq(2))
        told = bob.expect(News).news[0]
        assert isinstance(told, Written)
        assert ann.opened is not None
        assert (told.session, told.seq) == (ann.opened.session, 2)


def test_a_client_cannot_act_as_another_user(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    with pytest.raises(ClosedError) as refused:
        Raw.into(served.port, served.token(space, "write", "ann"), space, actor="bob")
    assert refused.value.code == 4403
    with Raw.into(served.port, served.token(space, "write", "ann"), space) as raw:
        assert raw.opened is not None
        assert raw.opened.actor == "ann"


# --- 41 -------------------------------------------------------------------------------------------------------

RECEIPT = doc("receipt:e1")


def test_a_receipt_is_made_once_and_never_changed(served: Served) -> None:
    with served.enter(served.space(), actor="ann") as raw:
        tried = [SetDoc(RECEIPT, 1), DeleteDoc(RECEIPT), PatchDoc(RECEIPT, (Add(("a",), 1),))]
        for number, operation in enumerate(tried, 1):
            assert raw.write(number, operation).code == "HW403"
        once = {"conditions": (Absent(RECEIPT),)}
        assert isinstance(raw.write(4, SetDoc(RECEIPT, {}), **once), Committed)
        # 42: whoever sends the same event again is told that it was handled, for good.
        again = raw.write(5, SetDoc(doc("effect"), 1), SetDoc(RECEIPT, {}), **once)
        assert isinstance(again, Refused)
        assert again.unmet == Absent(RECEIPT)
        for number, operation in enumerate(tried, 6):
            assert raw.write(number, operation).code == "HW403"
        for number, operation in enumerate(tried[1:], 10):
            assert raw.write(number, operation, **once).code == "HW403"


# --- 39: one user and another ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(served: Served) -> Iterator[tuple[Served, str]]:
    """A space in which Bob keeps a diary."""
    space = served.space()
    served.fill(space, board={"open": True})
    with served.enter(space, "write", "bob") as bob:
        assert isinstance(bob.write(1, SetDoc(BOBS, SECRET)), Committed)
        yield served, space


NOBODYS = doc("none", "user:bob")
SESSIONS = doc("cursor", "session:bob:someid")


@pytest.mark.parametrize("key", [BOBS, NOBODYS, SESSIONS], ids=["there", "not there", "a session's"])
def test_a_document_of_another_user_is_answered_like_a_missing_one(shared: tuple[Served, str], key: DocKey) -> None:
    served, space = shared
    same = digest(SECRET)
    asked: list[Any] = [
        Pull(1, (key,)),
        Watch(1, ((key, 0),)),
        Watch(1, ((key, 2),)),
        AskChanged(1, key, (((), False),), 0),
        AskObservations(1, "space/", (key,)),
        Transact(1, (SetDoc(key, 1),)),
        Transact(1, (DeleteDoc(key),)),
        Transact(1, (PatchDoc(key, (Replace((), 1),)),)),
        Transact(1, (SetDoc(doc("mine"), 1), SetDoc(key, 1))),
        Transact(1, (SetDoc(doc("mine"), 1),), conditions=(Absent(key),)),
        Transact(1, (SetDoc(doc("mine"), 1),), conditions=(ValueIs(key, same),)),
        Transact(1, (SetDoc(doc("mine"), 1),), conditions=(ValueIs(key, b""),)),
        Transact(1, (SetDoc(doc("mine"), 1),), reads=(Read(key, (), Seq(0)),)),
        Transact(1, (SetDoc(doc("mine"), 1),), rests=(PendingRead(key, (), Seq(0), ()),)),
        Transact(1, (), notes=((key, b"", (), ()),)),
        Transact(1, (), notes=((doc("mine"), b"", (Read(key, (), Seq(0)),), ()),)),
    ]
    for frame in asked:
        with served.enter(space, "write", "ann") as ann:
            found = refusal(ann, frame)
            assert (found.code, found.message, found.number) == ("HW403", "there is no such document", 1), frame
    with served.enter(space, "write", "ann") as ann:
        assert ann.opened is not None
        assert ann.opened.seq == 2, "nothing was written"


@pytest.mark.parametrize(
    "prefix", ["", "user", "user:", "user:bob/", "user:bo", "user:bob/di", "session:", "spac", "s"]
)
def test_documents_of_others_are_not_found_by_how_they_begin(shared: tuple[Served, str], prefix: str) -> None:
    served, space = shared
    for frame in (Watch(1, (), (prefix,)), Pull(1, (), (prefix,)), Pull(1, (), ("space/", prefix))):
        with served.enter(space, "read", "ann") as ann:
            assert refusal(ann, frame).message == "there are no such documents"
    with served.enter(space, "read", "ann") as ann:
        ann.say(AskObservations(1, prefix))
        assert SECRET not in repr(ann.hear())


def test_a_name_that_begins_like_anothers_sees_nothing_of_it(shared: tuple[Served, str]) -> None:
    served, space = shared
    for actor in ("bo", "bob2", "Bob", "b%6fb", "bob:", ""):
        with Raw.into(served.port, served.token(space, "own"), space, actor=actor) as raw:
            assert refusal(raw, Pull(1, (BOBS,))).code == "HW403"


def test_links_do_not_lead_into_documents_of_another_user(shared: tuple[Served, str]) -> None:
    served, _ = shared
    space = served.space()
    served.fill(space, a=1)
    links: list[Any] = [
        {"/": {"link@1": {"id": BOBS}}},
        {"/": {"link@1": {"id": "diary", "scope": "user"}}},
        {"/": {"link@1": {"id": "../user:bob/diary"}}},
        {"/": {"link@1": {"id": "diary", "scope": "user:bob"}}},
    ]
    with served.enter(space, "write", "bob") as bob, served.enter(space, "read", "ann") as ann:
        ann.say(Watch(1, (), ("space/",), None, 1000))
        ann.expect(Docs)
        # Made and linked to in one commit: that comes along, if it may be seen.
        written = (SetDoc(doc("page"), links), SetDoc(BOBS, SECRET), SetDoc(doc("open"), 1))
        assert isinstance(bob.write(1, *written), Committed)
        heard = settled(ann)
        told = [new for news in heard if isinstance(news, News) for new in news.news if isinstance(new, Written)]
        assert [each.doc for new in told for each in new.operations] == [doc("page"), doc("open")]
        assert SECRET not in repr(heard)
        for frame in (Pull(2, (doc("page"),), (), None, 1000), Watch(3, ((doc("page"), 0),), (), None, 1000)):
            ann.say(frame)
            found = ann.expect(Docs)
            assert SECRET not in repr(found)
            assert not [each for each in found.docs if not each.doc.startswith("space/")]


def test_a_commit_that_touches_documents_of_several_is_told_in_parts(shared: tuple[Served, str]) -> None:
    served, _ = shared
    space = served.space()
    served.fill(space, a=1)
    with (
        served.enter(space, "write", "bob") as bob,
        served.enter(space, "read", "ann") as ann,
        served.enter(space, "read", "bob") as phone,
    ):
        for raw, scope in ((ann, "user:ann/"), (phone, "user:bob/")):
            raw.say(Watch(1, (), ("space/", scope)))
            raw.expect(Docs)
        assert isinstance(bob.write(1, SetDoc(doc("a"), 2), SetDoc(BOBS, SECRET)), Committed)
        assert SECRET not in repr(settled(ann))
        assert SECRET in repr(settled(phone))


def test_the_reads_of_another_users_run_are_not_sent(shared: tuple[Served, str]) -> None:
    """Which documents somebody has, and how new they are, is in what is kept of runs."""
    served, _ = shared
    space = served.space()
    served.fill(space, a=1)
    body = encode_observation(b"code", [(BOBS, (), 0), (doc("a"), (), 0)])
    with served.enter(space, "write", "bob") as bob, served.enter(space, "write", "ann") as ann:
        ann.say(Watch(1, (), ("space/",)))
        ann.expect(Docs)
        assert isinstance(bob.write(1, SetDoc(BOBS, SECRET)), Committed)
        assert isinstance(bob.write(2, SetDoc(doc("sum"), 5), seen=(0, body)), Committed)
        assert isinstance(bob.write(3, SetDoc(doc("sum2"), 5), SetDoc(doc("x"), 1), seen=(0, body)), Committed)
        bob.say(PutObservations(((doc("sum3"), body, (), ()),)))
        settled(bob)
        heard = settled(ann)
        assert "diary" not in repr(heard)
        ann.say(AskObservations(5, "space/", (doc("sum"),)))
        found = ann.expect(Observations)
        assert "diary" not in repr(found)
        assert not [key for key in found.places if not key.startswith("space/")]
        # Bob himself is told.
        bob.say(AskObservations(6, "space/"))
        assert {row[0] for row in bob.expect(Observations).rows} == {doc("sum"), doc("sum2"), doc("sum3")}


def test_a_claimed_read_of_a_run_does_not_reveal_a_document(shared: tuple[Served, str]) -> None:
    served, space = shared
    body = encode_observation(b"code", [(BOBS, (), 0)])
    with served.enter(space, "write", "ann") as ann:
        ann.say(PutObservations(((doc("mine", "user:ann"), body, (), ()),)))
        assert isinstance(ann.write(1, SetDoc(doc("probe", "user:ann"), 1), seen=(0, body)), Committed)
        ann.say(AskObservations(2, "user:ann/", (doc("mine", "user:ann"), doc("probe", "user:ann"))))
        found = ann.expect(Observations)
        assert found.rows == ()
        assert BOBS not in found.places


@pytest.mark.parametrize("body", [b"", b"\xff", b"\x93\x01\xc4\x00\x91\xa1\xff", b"\x91" * 5000, bytes(1000)], ids=len)
def test_what_is_no_record_of_a_run_is_not_kept_and_breaks_nothing(shared: tuple[Served, str], body: bytes) -> None:
    served, _ = shared
    space = served.space()
    with served.enter(space, actor="ann") as ann:
        assert isinstance(
            ann.write(1, SetDoc(doc("a"), 1), seen=(0, body), notes=((doc("b"), body, (), ()),)), Committed
        )
        ann.say(PutObservations(((doc("c"), body, (), ()),)))
        settled(ann)
        ann.say(AskObservations(2, "space/"))
        assert ann.expect(Observations).rows == ()


def test_a_conflict_names_only_what_its_own_commit_has_read(shared: tuple[Served, str]) -> None:
    served, _ = shared
    space = served.space()
    served.fill(space, a=1)
    with served.enter(space, "write", "bob") as bob, served.enter(space, "write", "ann") as ann:
        assert isinstance(bob.write(1, SetDoc(BOBS, SECRET), SetDoc(doc("a"), 2)), Committed)
        verdict = ann.write(1, SetDoc(doc("b"), 1), reads=(Read(doc("a"), (), Seq(1)),))
        assert verdict.doc == doc("a")
        assert "bob" not in repr(verdict)
        refused = ann.write(2, SetDoc(doc("b"), 1), conditions=(OriginCommitted(LocalSeq(1)),))
        assert isinstance(refused, Refused), "number 1 is Ann's, which was rejected; not Bob's"
