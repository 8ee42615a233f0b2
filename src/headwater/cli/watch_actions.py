"""Values of a server's space as they change: watch."""

from __future__ import annotations

import sys

from headwater.cli.output import is_terminal, json_text, note, write
from headwater.cli.target import Target
from headwater.client.value_watch import values_of
from headwater.errors import UsageError
from headwater.values.codec import to_json
from headwater.values.tree import ABSENT


def watch_value(*, path: str, jsonl: bool, count: int | None, target: Target) -> None:
    """Carry out `watch`."""
    server = target.server
    if server is None:
        message = (
            "only a server tells of changes (--url ws://HOST:PORT/SPACE): a file belongs to one process at a time, so "
            "while this command had it open nothing would change"
        )
        raise UsageError(message)
    printed = 0
    for seq, value in values_of(server.url, server.token, path, target.branch):
        if jsonl:
            write(json_text({"seq": seq} | ({} if value is ABSENT else {"value": to_json(value)})))
        elif value is not ABSENT:
            write(json_text(to_json(value)))
        else:
            if is_terminal():
                note(f"{path}: nothing stands there")
            continue
        # Flush each line, also in a pipe.
        sys.stdout.flush()
        printed += 1
        if count == printed:
            return
