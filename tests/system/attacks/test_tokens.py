"""Attacks 7, 8, 13 and 33: tokens in the wrong place, guessed, used after somebody else did, and taken back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.access import grants
from headwater.access.rights import Right
from headwater.server.authenticator import Authenticator
from headwater.server.server_limits import GUESSES_BURST
from headwater.store.commit import Committed, SetDoc
from headwater.sync.frames import Docs, ErrorFrame, News, Ping, Pong, Transact, Watch
from headwater.values.ids import Seq
from tests.system.attacks.raw import ClosedError, Raw, ask, knock
from tests.system.attacks.served import Served, doc


def eventually(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- 7 --------------------------------------------------------------------------------------------------------


def test_a_token_in_the_address_is_refused_and_written_nowhere(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    token = served.token("*")
    with caplog.at_level(logging.DEBUG):
        for path in (f"/?token={token}", f"/x?access_token={token}", f"/?{token}"):
            assert knock(served.port, path=path) == 400
            assert knock(served.port, token, path=path) == 400
        for path in (f"/spaces/home/backup?token={token}", f"/metrics?token={token}", f"/{token}?a={token}"):
            lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{served.port}", "X-Forwarded-For: 10.0.0.1"]
            assert ask(served.port, lines).status in (400, 401, 404)
    assert token not in caplog.text
    for file in served.folder.iterdir():
        assert token.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("path", ["/a/b", "/..%2f..%2fetc", "/%2e%2e", "/..", "/a%5cb", "/a%2fb", "//"])
def test_an_address_that_leads_elsewhere_leads_nowhere(served: Served, path: str) -> None:
    assert knock(served.port, served.token("*"), path=path) == 404


# --- 8 --------------------------------------------------------------------------------------------------------


def test_guesses_are_limited_and_a_local_client_with_a_token_is_not_locked_out(tmp_path: Path) -> None:
    with Served.running(tmp_path) as served:
        token = served.token("*")
        answers = [knock(served.port, "hw_" + "A" * 43) for _ in range(10 * GUESSES_BURST)]
        assert answers[:GUESSES_BURST] == [401] * GUESSES_BURST
        assert answers.count(429) > 5 * GUESSES_BURST
        # All users of one machine have one address.
        assert knock(served.port, token) == 101
        # Time passes, and one more may be heard; not all.
        assert 429 in [knock(served.port, "hw_" + "B" * 43) for _ in range(5)]


def test_a_hundred_thousand_guesses_from_elsewhere_are_not_even_looked_at(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without sockets: that many would take a minute."""
    looked = []
    monkeypatch.setattr("headwater.server.authenticator._now", lambda: 0.0)
    monkeypatch.setattr(type(served.server.access), "with_token", lambda _self, token: looked.append(token))
    authenticator = Authenticator(served.spaces, served.server.authenticator.names)  # type: ignore[union-attr]  # it runs
    statuses = [authenticator.bearer(f"Bearer hw_{n:043}", "203.0.113.7") for n in range(100_000)]
    assert len(looked) == GUESSES_BURST + 1
    assert sum(answer[0] == 429 for answer in statuses if isinstance(answer, tuple)) == 100_000 - len(looked)
    # Nobody else is.
    assert authenticator.bearer("Bearer hw_x", "203.0.113.8")[0] == 401  # type: ignore[index]  # refused


def test_how_many_addresses_are_remembered_has_a_bound(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.authenticator._now", lambda: 0.0)
    monkeypatch.setattr("headwater.server.authenticator.PEERS_MAX", 100)
    authenticator = Authenticator(served.spaces, served.server.authenticator.names)  # type: ignore[union-attr]  # it runs
    for n in range(1000):
        authenticator.bearer("Bearer x", f"address {n}")
    assert len(authenticator._guesses) == 100


# --- 13 -------------------------------------------------------------------------------------------------------


def test_a_used_proof_is_rejected_because_another_connection_has_the_session(served: Served) -> None:
    space = served.space()
    first = served.enter(space, actor="ann")
    assert first.opened is not None
    mine = first.opened
    with first, served.enter(space, actor="ann", session=mine.session, resume=mine.resume) as second:
        assert second.opened is not None
        assert second.opened.session == mine.session
        taken = first.closed()
        assert (taken.code, taken.troubles[-1].code) == (4409, "HW404")
        # The new one goes on, and shows its own next time; then the old one is worth nothing.
        with served.enter(space, actor="ann", session=mine.session, resume=second.opened.resume):
            with pytest.raises(ClosedError) as refused:
                served.enter(space, actor="ann", session=mine.session, resume=mine.resume)
            assert refused.value.code == 4409
            assert refused.value.troubles[-1].code == "HW404"


@pytest.mark.parametrize("how", ["another actor", "another space", "a bit", "nothing", "an invented session", "short"])
def test_a_proof_is_good_for_nothing_but_its_session(served: Served, how: str) -> None:
    space, other = served.space(), served.space()
    with served.enter(space, actor="ann") as first, served.enter(other):
        assert first.opened is not None
        session, resume = first.opened.session, first.opened.resume
        tried = {
            "another actor": (space, "bob", session, resume),
            "another space": (other, "ann", session, resume),
            "a bit": (space, "ann", session, resume[:-1] + bytes([resume[-1] ^ 1])),
            "nothing": (space, "ann", session, b""),
            "an invented session": (space, "ann", "made up", resume),
            "short": (space, "ann", session, resume[:7]),
        }[how]
        with pytest.raises(ClosedError) as refused:
            served.enter(tried[0], actor=tried[1], session=tried[2], resume=tried[3])
        assert refused.value.code == 4409
        first.say(Ping(1))
        assert first.expect(Pong) == Pong(1)


# --- 33 and what may be done still ----------------------------------------------------------------------------


def test_who_is_revoked_is_sent_away_though_nothing_happens(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    token, grant = served.server.access.create(space=space, can=Right.READ)
    with Raw.into(served.port, token, space) as reader:
        reader.say(Watch(1, ((doc("a"), 0),)))
        reader.say(Ping(2))
        reader.expect(Pong)
        began = time.monotonic()
        served.server.access.revoke(grant.id)
        closed = reader.closed()
        # It is about a tenth of a second; how busy the machine is, is no property of the server.
        assert time.monotonic() - began < 5
        assert (closed.code, closed.troubles[-1].code) == (4410, "HW404")
    assert knock(served.port, token) == 401


def test_the_next_frame_after_a_revocation_is_withheld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The rounds are not what sends it away here.
    monkeypatch.setattr("headwater.server.spaces.served_spaces.ROUND_S", 3600.0)
    with Served.running(tmp_path) as served:
        _revoke_and_write(served)


def _revoke_and_write(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    token, grant = served.server.access.create(space=space, can=Right.READ)
    with Raw.into(served.port, token, space) as reader, served.enter(space) as owner:
        reader.say(Watch(1, ((doc("a"), Seq(0)),)))
        reader.expect(Docs)
        assert owner.write(1, SetDoc(doc("a"), 2)).seq
        assert reader.expect(News).news
        served.server.access.revoke(grant.id)
        assert owner.write(2, SetDoc(doc("a"), "secret")).seq
        closed = reader.closed()
        assert closed.code == 4410
        assert "secret" not in repr(reader.heard)


def test_a_right_that_was_lowered_is_lowered_at_once(served: Served) -> None:
    space = served.space()
    token, grant = served.server.access.create(space=space, can=Right.OWN)
    with Raw.into(served.port, token, space) as writer:
        assert isinstance(writer.write(1, SetDoc(doc("a"), 1)), Committed)
        opened = grants.open_file(served.folder)
        assert opened is not None
        lowered = [_lowered(each) if each.id == grant.id else each for each in opened.grants]
        grants.write_file(served.folder, lowered)
        eventually(lambda: served.server.access.right(grant.id, space) is Right.READ)
        refused = writer.write(2, SetDoc(doc("a"), 2))
        assert isinstance(refused, ErrorFrame)
        assert refused.code == "HW403"
        # Reading goes on.
        writer.say(Watch(3, ((doc("a"), 0),)))
        writer.say(Ping(4))
        writer.expect(Pong)
    with served.enter(space) as other:
        assert other.opened is not None
        assert other.opened.seq == 1


def _lowered(grant: grants.Grant) -> grants.Grant:
    names = ("id", "kind", "secret", "space", "actor", "created", "expires", "note")
    return grants.Grant(**{name: getattr(grant, name) for name in names}, can=Right.READ)


def test_a_grant_that_expires_ends_what_was_opened_with_it(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    token, _ = served.server.access.create(space=space, can=Right.READ, lasts_ms=500)
    with Raw.into(served.port, token, space) as reader:
        assert reader.closed().code == 4410


def test_who_is_revoked_while_a_space_is_opened_is_not_let_in(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    space = served.space()
    served.fill(space, a=1)
    token, grant = served.server.access.create(space=space, can=Right.READ)
    usual = type(served.spaces).channel

    async def slow(self: object, name: str, *, create: bool) -> object:
        found = await usual(self, name, create=create)  # type: ignore[arg-type]  # the spaces of the server
        served.server.access.revoke(grant.id)
        return found

    monkeypatch.setattr(type(served.spaces), "channel", slow)
    with pytest.raises(ClosedError) as refused:
        Raw.into(served.port, token, space)
    assert refused.value.code == 4403
    assert refused.value.troubles[-1].message.startswith("there is no such space, or")


def test_commits_on_their_way_when_a_right_ends_are_all_answered_or_none(served: Served) -> None:
    space = served.space()
    token, grant = served.server.access.create(space=space, can=Right.OWN)
    with Raw.into(served.port, token, space) as writer:
        for number in range(1, 101):
            writer.say(Transact(number, (SetDoc(doc("a"), number),)))
        served.server.access.revoke(grant.id)
        assert writer.closed().code == 4410
    with served.enter(space) as owner:
        assert owner.opened is not None
        assert owner.opened.seq <= 100
