"""JSON that people type: what is accepted, and what the message says otherwise."""

import pytest

from headwater.errors import UsageError
from headwater.values.strict_json import parse_json


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), (' {"a": [null, true]} ', {"a": [None, True]}), ('"tea"', "tea")]
)
def test_json_is_parsed(text: str, value: object) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the value is empty"),
        ("NaN", "NaN is not a number that JSON has"),
        ("-Infinity", "-Infinity is not a number that JSON has"),
        ('{"a": 1, "a": 2}', "the key 'a'"),
        ("[" * 100_000, "nested too deep"),
        ("tea", """text needs its own quotes: '"tea"'"""),
        ("{a: 1}", "put the whole value in single quotes"),
        ('{"a":\n1,}', "line 2, column"),
    ],
)
def test_other_text_is_rejected_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_json(text)
    assert message in found.value.message
