"""Tokens: what they look like, and that nothing else is taken for one."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.access.rights import WORDS, Right
from headwater.access.tokens import digest, mint, redacted


def test_a_token_is_32_random_bytes_behind_a_prefix() -> None:
    made = {mint() for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"hw_[A-Za-z0-9_-]{43}", token) for token in made)


def test_what_is_kept_of_a_token_is_its_hash() -> None:
    token = mint()
    assert digest(token) == sha256(token.encode()).hexdigest()


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "hw_",
        "hw_" + "a" * 42,
        "hw_" + "a" * 44,
        "HW_" + "a" * 43,
        "a" * 46,
        "hw_" + "a" * 42 + "=",
        " hw_" + "a" * 43,
        "hw_" + "a" * 43 + "\n",
        "hw_" + "\uff41" * 43,
        "hw_" + "a" * 42 + "\ud800",
        "hw_" + "a" * 42 + "\0",
        "x" * 1_000_000,
    ],
)
def test_what_is_no_token_has_no_hash(malformed: str) -> None:
    assert digest(malformed) is None


@pytest.mark.parametrize("other", [None, 7, b"hw_" + b"a" * 43, ["hw_" + "a" * 43]])
def test_what_is_not_even_text_has_no_hash(other: str) -> None:
    assert digest(other) is None


@given(st.text(), st.text())
def test_no_token_and_no_private_key_is_left_in_redacted_text(before: str, after: str) -> None:
    token = mint()
    key = token.replace("hw_", "hwk_", 1)
    text = redacted(f"{before}{token}{after}, {key}")
    assert token not in text
    assert key[4:] not in text


def test_redacting_leaves_other_words_alone() -> None:
    assert redacted("the space hw_notes of Ångström") == "the space hw_notes of Ångström"
    assert redacted(f"Authorization: Bearer {mint()}; x") == "Authorization: Bearer hw_…; x"


def test_each_right_has_all_before_it() -> None:
    assert [right.word for right in sorted(Right)] == ["none", "read", "write", "own"]
    assert list(WORDS) == ["read", "write", "own"]
