"""Space ids: 100 random bits as 20 digits and letters; files of earlier versions have the same id in another form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import NameRefusedError
from headwater.values.space_ids import ALPHABET, check_space_id, is_space_id, space_id_from, stored_space_id

sixteen_bytes = st.binary(min_size=16, max_size=16)


@given(sixteen_bytes)
def test_an_id_has_twenty_digits_and_letters(random: bytes) -> None:
    made = space_id_from(random)
    assert len(made) == 20
    assert set(made) <= set(ALPHABET)
    assert is_space_id(made)


@given(sixteen_bytes, sixteen_bytes)
def test_ids_differ_exactly_if_the_first_hundred_bits_do(one: bytes, other: bytes) -> None:
    bits = [int.from_bytes(each, "big") >> 28 for each in (one, other)]
    assert (space_id_from(one) == space_id_from(other)) == (bits[0] == bits[1])


@given(sixteen_bytes)
def test_the_form_of_earlier_versions_means_the_same_id_everywhere(random: bytes) -> None:
    assert stored_space_id(random.hex()) == space_id_from(random)


@given(sixteen_bytes)
def test_an_id_in_its_own_form_is_taken_as_it_is(random: bytes) -> None:
    made = space_id_from(random)
    assert stored_space_id(made) == check_space_id(made) == made


@pytest.mark.parametrize(
    "text", ["", "home", "7k3q9d4m2x8v1n6p0c5", "7k3q9d4m2x8v1n6p0c5r0", "7k3q9d4m2x8v1n6p0c5l", "é" * 20]
)
def test_another_text_is_refused(text: str) -> None:
    assert not is_space_id(text)
    with pytest.raises(NameRefusedError, match="is not a space id"):
        stored_space_id(text)


def test_capital_letters_are_refused_with_a_hint() -> None:
    with pytest.raises(NameRefusedError, match="written in small letters"):
        check_space_id("7K3Q9D4M2X8V1N6P0C5R")
