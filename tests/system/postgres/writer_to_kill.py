"""A program that appends numbers to a list, and prints each one that is confirmed. Usage: URL SPACE NAME"""

from __future__ import annotations

import sys

import headwater as hw
from headwater.errors import HeadwaterError

url, space, name = sys.argv[1:]
app = hw.App("numbers")
items = app.cell("items", type=list[str], default=[])


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


try:
    with app.open(url, space=space) as opened:
        say("open")
        number = 0
        while True:
            number += 1
            items.append(f"{name}-{number}")
            opened.sync()
            say(f"{name}-{number}")
except HeadwaterError as error:
    say(f"error {error.code} {getattr(error.__cause__, 'code', '')}".strip())
