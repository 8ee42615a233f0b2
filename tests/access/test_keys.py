"""Ed25519: what is signed has one meaning, and what is malformed is no signature."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.access import keys
from headwater.errors import UnavailableError, UsageError
from tests.support.halves import examples

NONCE = bytes(range(32))
TEXT = keys.challenge_text(NONCE, "127.0.0.1:8400", "notes", "s1", 1_700_000_000_000)
PRIVATE = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19

SMALL = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    # The same in spellings that are not theirs.
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


# --- signatures -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("private", "public", "text", "signature"),
    [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            (
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
            ),
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            (
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            ),
        ),
    ],
)
def test_signatures_are_those_of_rfc_8032(private: str, public: str, text: str, signature: str) -> None:
    assert keys.public_of(bytes.fromhex(private)).hex() == public
    assert keys.sign(bytes.fromhex(private), bytes.fromhex(text)).hex() == signature
    assert keys.verify(bytes.fromhex(public), bytes.fromhex(text), bytes.fromhex(signature))


def test_a_signature_is_for_one_text_and_one_key() -> None:
    public, signature = keys.public_of(PRIVATE), keys.sign(PRIVATE, TEXT)
    assert keys.verify(public, TEXT, signature)
    assert not keys.verify(public, TEXT + b"\0", signature)
    assert not keys.verify(keys.public_of(NONCE), TEXT, signature)


def test_every_flipped_bit_is_noticed() -> None:
    public, signature = keys.public_of(PRIVATE), keys.sign(PRIVATE, TEXT)
    for place in range(8 * 64):
        flipped = bytearray(signature)
        flipped[place // 8] ^= 1 << place % 8
        assert not keys.verify(public, TEXT, bytes(flipped))
    for place in range(8 * 32):
        other = bytearray(public)
        other[place // 8] ^= 1 << place % 8
        assert not keys.verify(bytes(other), TEXT, signature)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 63, 65, 128])
def test_what_has_the_wrong_length_is_no_signature(length: int) -> None:
    public, signature = keys.public_of(PRIVATE), keys.sign(PRIVATE, TEXT)
    assert not keys.verify(public, TEXT, (signature * 2)[:length])
    if length != 32:
        assert not keys.verify((public * 4)[:length], TEXT, signature)


def test_a_signature_has_one_spelling() -> None:
    public, signature = keys.public_of(PRIVATE), keys.sign(PRIVATE, TEXT)
    s = int.from_bytes(signature[32:], "little")
    for more in range(1, 16):
        if s + more * ORDER < 2**256:
            other = signature[:32] + (s + more * ORDER).to_bytes(32, "little")
            assert not keys.verify(public, TEXT, other)


@pytest.mark.parametrize("public", SMALL)
def test_a_point_of_small_order_is_no_key(public: str) -> None:
    """With such a key R = S·B and S = 0 are good for many texts, or for all."""
    for r in SMALL:
        for text in (b"", TEXT, b"other"):
            assert not keys.verify(bytes.fromhex(public), text, bytes.fromhex(r) + bytes(32))
    with pytest.raises(UsageError, match="not a public key of Ed25519"):
        keys.check_public(bytes.fromhex(public))


def test_the_points_of_small_order_are_all_there_are() -> None:
    """Eight times such a point is the neutral one: the table is checked against the curve's own law."""
    found = {bytes.fromhex(public) for public in SMALL[:8]}
    assert len(found) == 8
    assert all(int.from_bytes(public, "little") % 2**255 in keys._SMALL for public in found)
    d = -121665 * pow(121666, -1, PRIME) % PRIME
    for height in keys._SMALL:
        y = height
        square = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
        # Doubling needs no x but its square: y' = (y² + x²) / (2 - y² + x²), on this curve.
        for _ in range(3):
            y, square = _doubled(y, square, d)
        assert (y, square) == (1, 0)


def _doubled(y: int, square: int, d: int) -> tuple[int, int]:
    below = (1 - d * square * y * y) % PRIME
    doubled = (y * y + square) * pow(below, -1, PRIME) % PRIME
    return doubled, (doubled**2 - 1) * pow(d * doubled**2 + 1, -1, PRIME) % PRIME


def test_a_key_that_is_not_on_the_curve_is_refused_and_signs_nothing() -> None:
    refused = 0
    for first in range(2, 60):
        public = bytes([first]) + bytes(31)
        try:
            keys.check_public(public)
        except UsageError:
            refused += 1
            assert not keys.verify(public, TEXT, keys.sign(PRIVATE, TEXT))
    assert 15 < refused < 45, "half of all are"


@settings(max_examples=examples(300))
@given(st.binary(max_size=40), st.binary(max_size=80), st.binary(max_size=70))
def test_whatever_comes_is_answered_with_no(public: bytes, text: bytes, signature: bytes) -> None:
    assert keys.verify(public, text, signature) is False
    assert keys.verify(public.ljust(32, b"\7")[:32], text, signature.ljust(64, b"\1")[:64]) is False


# --- what is signed ---------------------------------------------------------------------------------------


def test_the_text_of_a_challenge_is_as_documented() -> None:
    assert keys.challenge_text(NONCE, "a", "é", "", 258) == (
        b"headwater challenge 1\0"
        + bytes(7) + b"\x20" + NONCE
        + bytes(7) + b"\x01a"
        + bytes(7) + b"\x02\xc3\xa9"
        + bytes(8)
        + bytes(7) + b"\x08" + bytes(6) + b"\x01\x02"
    )  # fmt: skip


FIELDS = st.tuples(
    st.binary(min_size=32, max_size=32),
    *[st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=4) for _ in range(3)],
    st.integers(0, 2**63 - 1),
)


@given(FIELDS, FIELDS)
def test_different_challenges_have_different_texts(
    one: tuple[bytes, str, str, str, int], other: tuple[bytes, str, str, str, int]
) -> None:
    assert (keys.challenge_text(*one) == keys.challenge_text(*other)) == (one == other)


def test_what_is_moved_from_one_field_to_the_next_is_another_text() -> None:
    words = [
        ("ab", "c", "d"),
        ("a", "bc", "d"),
        ("ab", "cd", ""),
        ("", "abc", "d"),
        ("ab\0", "c", "d"),
        ("abcd", "", ""),
    ]
    words += [("\ud83d\ude00", "", ""), ("\U0001f600", "", ""), ("e\u0301", "", ""), ("\u00e9", "", "")]
    assert len({keys.challenge_text(NONCE, *each, 1) for each in words}) == len(words)


@pytest.mark.parametrize(("nonce", "expires"), [(b"", 1), (bytes(31), 1), (bytes(33), 1), (NONCE, -1), (NONCE, 2**63)])
def test_what_is_no_challenge_is_not_signed(nonce: bytes, expires: int) -> None:
    with pytest.raises(UsageError, match="a challenge has 32 random bytes"):
        keys.challenge_text(nonce, "a", "b", "c", expires)


# --- as text ----------------------------------------------------------------------------------------------


def test_a_public_key_is_passed_on_as_text() -> None:
    public = keys.public_of(PRIVATE)
    text = keys.public_text(public)
    assert len(text) == 43
    assert keys.parse_public(text) == public


def test_what_is_no_public_key_is_refused_when_it_is_read() -> None:
    text = keys.public_text(keys.public_of(PRIVATE))
    last = chr(ord(text[-1]) + 1)  # other bits in what is left over of the last character
    for other in ("", text[:-1], text + "A", f"{text}=", f" {text}", text[:-1] + last, "\u00e9" * 43, "+" * 43):
        with pytest.raises(UsageError, match="is not a public key"):
            keys.parse_public(other)


def test_a_private_key_in_place_of_the_public_one_is_not_repeated(tmp_path: Path) -> None:
    keys.write_private_key(tmp_path / "k", PRIVATE)
    text = (tmp_path / "k").read_text(encoding="ascii").strip()
    with pytest.raises(UsageError, match="that is a private key") as refused:
        keys.parse_public(text)
    assert text[4:] not in str(refused.value)


# --- files ------------------------------------------------------------------------------------------------


def test_a_private_key_is_in_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    private = keys.generate()
    before = os.umask(0)
    try:
        keys.write_private_key(tmp_path / "k", private)
    finally:
        os.umask(before)
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
    assert keys.read_private_key(tmp_path / "k") == private
    with pytest.raises(FileExistsError):
        keys.write_private_key(tmp_path / "k", keys.generate())
    assert keys.read_private_key(tmp_path / "k") == private


def test_a_private_key_that_others_can_read_is_none_any_more(tmp_path: Path) -> None:
    keys.write_private_key(tmp_path / "k", PRIVATE)
    (tmp_path / "k").chmod(0o640)
    with pytest.raises(UnavailableError, match="others may use it too"):
        keys.read_private_key(tmp_path / "k")
    (tmp_path / "link").symlink_to(tmp_path / "k")
    with pytest.raises(UnavailableError, match="symbolic link"):
        keys.read_private_key(tmp_path / "link")


@pytest.mark.parametrize("text", ["", "hwk_", "hwk_" + "a" * 42, "hw_" + "a" * 43, "x" * 200, "\u00e9" * 47])
def test_a_file_without_a_private_key_is_said_to_be_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text, encoding="utf-8")
    (tmp_path / "k").chmod(0o600)
    with pytest.raises(UsageError, match="holds no private key"):
        keys.read_private_key(tmp_path / "k")


def test_a_large_file_is_not_read_as_a_key(tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"x" * 10_000)
    (tmp_path / "k").chmod(0o600)
    with pytest.raises(UnavailableError, match="more than 256 bytes"):
        keys.read_private_key(tmp_path / "k")


def test_without_pynacl_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    signature = keys.sign(PRIVATE, TEXT)
    find = importlib.util.find_spec
    monkeypatch.setattr(keys, "find_spec", lambda name: None if name == "nacl" else find(name))
    for attempt in (
        keys.require,
        lambda: keys.sign(PRIVATE, TEXT),
        lambda: keys.verify(keys.parse_public("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"), TEXT, signature),
    ):
        with pytest.raises(UsageError, match=r'pip install "pynacl>=1\.5"'):
            attempt()
