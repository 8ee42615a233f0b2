"""A token as programs read it from a file: with the line break at its end, which no header may have."""

from __future__ import annotations

import pytest

from headwater.errors import UsageError
from headwater.runtime.options import Options


@pytest.mark.parametrize("given", ["hw_abc\n", " hw_abc ", "hw_abc\r\n", "hw_abc"])
def test_blanks_around_a_token_are_no_part_of_it(given: str) -> None:
    assert Options(token=given).token == "hw_abc"  # noqa: S105  # of a test


@pytest.mark.parametrize("given", ["", "\n", "hw_a hw_b", "hw_a\nhw_b", "hw_é", 7])
def test_what_cannot_be_a_token_is_refused_and_not_shown(given: object) -> None:
    with pytest.raises(UsageError, match="one word is expected") as refused:
        Options(token=given)
    assert "hw_" not in str(refused.value)
