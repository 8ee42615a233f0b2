"""JSON on the command line or on standard input, read strictly."""

from __future__ import annotations

import sys
from typing import Final

from headwater.cli.output import is_terminal, note
from headwater.errors import UsageError
from headwater.host.whole_files import RefusalError
from headwater.values.strict_json import parse_json

_INPUT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of a value on standard input. The largest document with every character escaped is smaller."""


def read_json(text: str) -> object:
    """JSON from the command line, or from standard input for `-`. Raises UsageError."""
    return parse_json(_read_input() if text == "-" else text)


def _read_input() -> str:
    if is_terminal(sys.stdin):
        note("reading JSON from the terminal; end with Ctrl-D")
    data = sys.stdin.buffer.read(_INPUT_BYTES_MAX + 1)
    if len(data) > _INPUT_BYTES_MAX:
        raise RefusalError(f"the input is larger than {_INPUT_BYTES_MAX:,} bytes; no document may be")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the input is not UTF-8: its byte {error.start} is {data[error.start]:#04x}") from None
