"""A program that is killed: it fills a collection, or opens it with more indexes, and says how far it is."""

from collections.abc import Iterator, Sequence
from typing import Any

import headwater as hw
from headwater.store.document import Documents

ROWS = 6000


class Part(hw.Doc):
    number: int
    shelf: str
    weight: float = 0.0


def stock(*, more: bool) -> tuple[hw.App, hw.Collection[Part]]:
    """The app, with one index or with several."""
    app = hw.App("stock")
    if more:
        return app, app.collection(Part, indexes=[Part.shelf, (Part.shelf, Part.weight)], unique=[Part.number])
    return app, app.collection(Part, unique=[Part.number])


def say(text: object) -> None:
    print(text, flush=True)


def fill(path: str) -> None:
    """Insert rows, a line for each 250th."""
    app, parts = stock(more=False)
    with app.open(path):
        start = parts.count()

        def rows() -> Iterator[dict[str, object]]:
            for number in range(start, start + ROWS):
                if number % 250 == 0:
                    say(number)
                yield {"number": number, "shelf": f"s{number % 17}", "weight": number / 8}

        parts.insert_many(rows())
        say("done")


def widen(path: str) -> None:
    """Open with more indexes, a line for each page of documents that they are made of."""
    many = Documents.many

    def saying(self: Documents, branch: Any, docs: Sequence[Any], through: Any) -> Any:
        say(len(docs))
        return many(self, branch, docs, through)

    Documents.many = saying  # type: ignore[method-assign]
    app, _ = stock(more=True)
    with app.open(path):
        say("open")
