"""One person at the board of the tutorial: `python person.py NAME`, `python person.py NAME add|take|finish TITLE`."""

import sys
from pathlib import Path

from board import add, app, finish, take

import headwater as hw

URL = "ws://127.0.0.1:8400/board"


def main(who: str, verb: str = "", title: str = "") -> None:
    file = Path(f"{who}.token")
    token = file.read_text().split()[-1] if file.exists() else None
    if not verb:
        app.run(URL, actor=who, token=token)
        return
    with app.open(URL, actor=who, token=token, local=f"{who}-laptop/") as space:
        match verb:
            case "add":
                ticket = add.send(title)
            case "take":
                ticket = take.send(title, who)
            case _:
                ticket = finish.send(title)
        try:
            if space.connection:
                ticket.result()
        except hw.EventRejectedError as error:
            print("rejected:", error.facts["reason"])


if __name__ == "__main__":
    main(*sys.argv[1:])
