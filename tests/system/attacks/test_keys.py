"""Attacks 9 to 12: signatures that were seen elsewhere, are for something else, or come in another spelling."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from headwater.access.keys import challenge_text, generate, public_of, sign
from headwater.access.rights import Right
from headwater.server.server_limits import STRANGERS_MAX
from headwater.sync.frames import Open, Ping, Pong, Proof
from headwater.values.ids import SessionId
from tests.system.attacks.raw import ClosedError, Raw, knock
from tests.system.attacks.served import Served

ORDER = (1 << 252) + 27742317777372353535851937790883648493
SMALL = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
"""A point of order eight. With it as a key, one signature is good for one text in eight."""
UNKNOWN = "there is no such space, or it may not be used with this token or key"


def soon(ms: int = 60_000) -> int:
    return int(time.time() * 1000) + ms


class Holder:
    """Somebody with a key that is registered for a space."""

    def __init__(self, served: Served, *, spaces: int = 1) -> None:
        self.served = served
        self.private = generate()
        self.public = public_of(self.private)
        self.spaces = [served.space() for _ in range(spaces)]
        for space in self.spaces:
            served.server.access.add_key(self.public, space=space, can=Right.OWN)

    def come(self) -> Raw:
        raw = Raw.upgrade(self.served.port, "", scheme="headwater-key")
        assert raw.answer.status == 101
        raw.greet()
        return raw

    def proof(
        self, raw: Raw, *, space: str | None = None, audience: str | None = None, session: str = "", expires: int = 0
    ) -> Proof:
        welcome = raw.welcome
        assert welcome is not None
        until = expires or soon()
        text = challenge_text(welcome.nonce, audience or welcome.audience, space or self.spaces[0], session, until)
        return Proof(self.public, sign(self.private, text), until)

    def is_refused(self, raw: Raw, proof: Proof, space: str | None = None) -> str:
        with raw, pytest.raises(ClosedError) as refused:
            raw.open(space or self.spaces[0], proof=proof)
        assert refused.value.code == 4403
        assert refused.value.troubles[-1].code == "HW403"
        return refused.value.troubles[-1].message


def test_whoever_has_the_key_is_let_in(served: Served) -> None:
    holder = Holder(served)
    with holder.come() as raw:
        assert raw.open(holder.spaces[0], proof=holder.proof(raw)).can == "own"


def test_a_signature_that_was_seen_on_another_connection_is_worth_nothing(served: Served) -> None:
    holder = Holder(served)
    with holder.come() as first:
        seen = holder.proof(first)
        first.open(holder.spaces[0], proof=seen)
        assert holder.is_refused(holder.come(), seen) == UNKNOWN
        # Whoever it was stays in.
        first.say(Ping(1))
        first.expect(Pong)


def test_a_signature_for_another_server_or_space_or_session_is_worth_nothing(served: Served) -> None:
    holder = Holder(served, spaces=2)
    one, other = holder.spaces
    raw = holder.come()
    assert holder.is_refused(raw, holder.proof(raw, audience="wss://elsewhere.test")) == UNKNOWN
    raw = holder.come()
    assert holder.is_refused(raw, holder.proof(raw, space=other), one) == UNKNOWN
    raw = holder.come()
    assert holder.is_refused(raw, holder.proof(raw, session="another")) == UNKNOWN


def test_a_signature_goes_with_the_session_that_is_gone_on_with(served: Served) -> None:
    holder = Holder(served)
    with holder.come() as first:
        opened = first.open(holder.spaces[0], proof=holder.proof(first))
        with holder.come() as second, pytest.raises(ClosedError) as refused:
            second.open(holder.spaces[0], session=opened.session, resume=opened.resume, proof=holder.proof(second))
        assert refused.value.code == 4403
        with holder.come() as third:
            proof = holder.proof(third, session=opened.session)
            again = third.open(holder.spaces[0], session=opened.session, resume=opened.resume, proof=proof)
            assert again.session == opened.session


def _shorter(public: bytes, signature: bytes) -> tuple[bytes, bytes]:
    return public, signature[:-1]


def _longer(public: bytes, signature: bytes) -> tuple[bytes, bytes]:
    return public, signature + b"\0"


def _empty(public: bytes, _signature: bytes) -> tuple[bytes, bytes]:
    return public, b""


def _short_key(public: bytes, signature: bytes) -> tuple[bytes, bytes]:
    return public[:-1], signature


def _no_key(_public: bytes, signature: bytes) -> tuple[bytes, bytes]:
    return b"", signature


def _other_s(public: bytes, signature: bytes) -> tuple[bytes, bytes]:
    """The same signature in its other spelling: libraries differ in whether they take it."""
    s = int.from_bytes(signature[32:], "little") + ORDER
    return public, signature[:32] + s.to_bytes(32, "little")


def _small_key(_public: bytes, _signature: bytes) -> tuple[bytes, bytes]:
    return SMALL, SMALL + bytes(32)


def _identity(_public: bytes, _signature: bytes) -> tuple[bytes, bytes]:
    one = b"\x01" + bytes(31)
    return one, one + bytes(32)


def _other_spelling_of_identity(_public: bytes, _signature: bytes) -> tuple[bytes, bytes]:
    beyond = ((1 << 255) - 19 + 1).to_bytes(32, "little")
    return beyond, b"\x01" + bytes(63)


def _zeros(public: bytes, _signature: bytes) -> tuple[bytes, bytes]:
    return public, bytes(64)


def _huge(public: bytes, _signature: bytes) -> tuple[bytes, bytes]:
    return public, bytes(60_000)


FORGED: list[Callable[[bytes, bytes], tuple[bytes, bytes]]] = [
    _shorter,
    _longer,
    _empty,
    _short_key,
    _no_key,
    _other_s,
    _small_key,
    _identity,
    _other_spelling_of_identity,
    _zeros,
    _huge,
]


@pytest.mark.parametrize("forge", FORGED, ids=lambda forge: forge.__name__)
def test_a_signature_that_is_malformed_is_refused_like_one_that_is_wrong(
    served: Served, forge: Callable[[bytes, bytes], tuple[bytes, bytes]]
) -> None:
    holder = Holder(served)
    raw = holder.come()
    good = holder.proof(raw)
    public, signature = forge(good.key, good.signature)
    assert holder.is_refused(raw, Proof(public, signature, good.expires)) == UNKNOWN


def test_a_key_of_small_order_cannot_be_registered(served: Served) -> None:
    from headwater.errors import UsageError  # only here

    for public in (SMALL, b"\x01" + bytes(31), bytes(32), bytes(31)):
        with pytest.raises(UsageError):
            served.server.access.add_key(public, space="home", can=Right.READ)


@pytest.mark.parametrize("ms", [-120_000, -3_600_000, 3_600_000, 2**62], ids=str)
def test_a_signature_of_another_time_may_be_made_again(served: Served, ms: int) -> None:
    holder = Holder(served)
    raw = holder.come()
    told = holder.is_refused(raw, holder.proof(raw, expires=min(soon(ms), 2**63 - 1)))
    assert told == "the signature has expired, or the clocks differ by more than a minute; try again"
    with holder.come() as again:
        again.open(holder.spaces[0], proof=holder.proof(again))


def test_a_challenge_is_good_for_one_answer(served: Served) -> None:
    """Whether it was right or wrong: the connection ends with a wrong one, and a second `open` is none."""
    holder = Holder(served)
    with holder.come() as raw:
        proof = holder.proof(raw)
        raw.open(holder.spaces[0], proof=proof)
        raw.say(Open(holder.spaces[0], proof=proof, session=SessionId("")))
        assert raw.closed().code == 4400


def test_nobody_comes_in_with_a_key_that_is_not_registered(served: Served) -> None:
    holder = Holder(served)
    holder.private = generate()
    holder.public = public_of(holder.private)
    raw = holder.come()
    assert holder.is_refused(raw, holder.proof(raw)) == UNKNOWN
    raw = holder.come()
    with raw, pytest.raises(ClosedError) as refused:
        raw.open(holder.spaces[0])
    assert refused.value.troubles[-1].message == UNKNOWN


def test_a_key_that_is_taken_back_ends_what_was_opened_with_it(served: Served) -> None:
    holder = Holder(served)
    grant = next(each for each in served.server.access.ls() if each.space == holder.spaces[0] and each.kind == "key")
    with holder.come() as raw:
        raw.open(holder.spaces[0], proof=holder.proof(raw))
        served.server.access.revoke(grant.id)
        assert raw.closed().code == 4410


def test_one_address_cannot_take_all_places_by_promising_a_key(served: Served) -> None:
    holder = Holder(served)
    strangers = [Raw.upgrade(served.port, "", scheme="headwater-key") for _ in range(STRANGERS_MAX)]
    try:
        assert {each.answer.status for each in strangers} == {101}
        assert knock(served.port, "", scheme="headwater-key") == 429
        # Who has shown a key is no stranger any more, and makes room.
        strangers[0].greet()
        strangers[0].open(holder.spaces[0], proof=holder.proof(strangers[0]))
        assert knock(served.port, "", scheme="headwater-key") == 101
    finally:
        for each in strangers:
            each.line.close()
