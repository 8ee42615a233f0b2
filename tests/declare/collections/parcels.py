"""A collection whose class has changed: as it was declared once, and as it is declared today."""

from __future__ import annotations

from typing import Any

import headwater as hw


class Former(hw.Doc):
    amount: int = 0
    number: str
    colour: str = "red"
    things: hw.List[str] = hw.List()


class Parcel(hw.Doc):
    cents: int = 0
    number: int
    items: hw.List[str] = hw.List()


def changes() -> list[Any]:
    return [
        hw.renamed(Parcel.cents, was="amount"),
        hw.retyped(Parcel.number, was=str, how=int),
        hw.renamed(Parcel.items, was="things"),
        hw.dropped("colour"),
    ]


HOW: list[Any] = changes()


def former(*, indexes: bool = True) -> tuple[hw.App, hw.Collection[Former]]:
    app = hw.App("former")
    return app, app.collection(Former, name="parcel", indexes=[Former.amount] if indexes else [])


def today(*, unique: bool = False) -> tuple[hw.App, hw.Collection[Parcel]]:
    app = hw.App("today")
    found = app.collection(
        Parcel,
        indexes=[Parcel.cents, (Parcel.cents, Parcel.number)],
        unique=[Parcel.number] if unique else [],
        changes=HOW,
    )
    return app, found


def fill(url: str, count: int) -> list[str]:
    """Documents of the former class; their ids."""
    app, parcels = former()
    with app.open(url):
        parcels.insert_many({"amount": n * 10, "number": str(n), "things": [f"t{n}"]} for n in range(count))
        return parcels.order_by(Former.amount).ids()


app, parcels = today()
"""For commands, as `tests.declare.collections.parcels:app`."""
