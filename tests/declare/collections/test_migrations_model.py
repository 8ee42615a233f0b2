"""Migrations against a model: documents of both forms, written by both programs, migrated in parts, in any order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.host.plain_opening import PlainOpening
from headwater.runtime import migration
from headwater.runtime.migration import Findings, MigratedCollection
from headwater.runtime.options import Options
from headwater.store.verification import verify
from headwater.values.codec import to_json
from tests.declare.collections.parcels import Parcel, today


class Model:
    """What each document has, by its id: in the form of today, and whether it was migrated."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.docs: dict[str, dict[str, Any]] = {}

    def former(self) -> dict[str, Any]:
        """A document as the former program writes it, some with both forms, some that do not fit."""
        rng = self.rng
        made: dict[str, Any] = {"colour": "red"} if rng.random() < 0.5 else {}
        number = rng.randrange(10_000)
        made["number"] = rng.choice([number, str(number), str(number), "odd", [1]])
        made[rng.choice(["amount", "cents"])] = rng.randrange(100)
        if rng.random() < 0.5:
            made[rng.choice(["things", "items"])] = ["a"] * rng.randrange(3)
        return made


def now(tree: dict[str, Any]) -> dict[str, Any] | None:
    """A document in the form of today; None if it does not fit."""
    made = dict(tree)
    for old, new in (("amount", "cents"), ("things", "items")):
        if old in made and new not in made:
            made[new] = made.pop(old)
    made.pop("colour", None)
    try:
        made["number"] = int(made["number"])
    except (TypeError, ValueError):
        return None
    return made


def members(app: hw.App, parcels: hw.Collection[Parcel], url: str) -> tuple[PlainOpening, MigratedCollection]:
    opening = app.made_opening(url, Options(), alone=True)
    app.declare_in(opening)
    return opening, MigratedCollection(opening, parcels)


def trees(space: Any, ids: Any) -> dict[str, Any]:
    return {each: to_json(space.replica.read(f"space/{each}")) for each in ids}


class StopError(Exception):
    """The migration ends here."""


@pytest.mark.parametrize("seed", range(12))
def test_a_migration_in_parts_ends_as_one_in_one_go(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(migration, "BATCH", rng.choice([1, 3, 7]))
    model, url = Model(rng), str(tmp_path / "parcels.db")
    app, parcels = today()
    # From before the collection, which refuses what fits neither form.
    with hw.App("before").open(url) as space:
        for number in range(rng.randrange(1, 30)):
            doc = f"parcel:{number}"
            model.docs[doc] = model.former()
            space.cell(doc, type=dict[str, Any]).value = model.docs[doc]
    ended, part = False, 0
    while not ended:
        part += 1
        # Between two parts, both programs write.
        with app.open(url) as space:
            for doc in rng.sample(sorted(model.docs), min(2, len(model.docs))):
                tree = space.cell(doc, type=dict[str, Any]).value
                model.docs[doc] = dict(tree)
                if rng.random() < 0.5:
                    parcels[doc].cents = model.docs[doc]["cents"] = rng.randrange(100)
                    model.docs[doc].pop("amount", None)
            for doc, tree in model.docs.items():
                wanted = now(tree)
                if wanted is not None:
                    found = parcels[doc]
                    assert (found.number, found.cents) == (wanted["number"], wanted.get("cents", 0))
                    assert list(found.items) == wanted.get("items", [])
            costs = sorted(tree.get("cents", tree.get("amount", 0)) for tree in model.docs.values())
            assert parcels.order_by(Parcel.cents).values(Parcel.cents) == costs
        opening, parts = members(app, parcels, url)
        with hw_space(opening):
            stop = rng.randrange(1, 4) + 3 * part

            def advance(_count: int) -> None:
                nonlocal stop
                stop -= 1
                if not stop:
                    raise StopError

            try:
                parts.migrate(parts.keys(), advance)
                ended = True
            except StopError:
                pass
    opening, parts = members(app, parcels, url)
    with hw_space(opening):
        last = parts.migrate(parts.keys(), lambda _count: None)
        misfits = sum(now(tree) is None for tree in model.docs.values())
        assert (last.migrated, last.old, last.misfits) == (0, 0, misfits), "idempotent"
        after = trees(opening, model.docs)
        assert after == {doc: now(tree) or tree for doc, tree in model.docs.items()}
        report = opening.ask_store(verify)
        assert report.ok, report.findings


def test_a_document_of_a_value_that_another_has_is_left_and_named(tmp_path: Path) -> None:
    url = str(tmp_path / "parcels.db")
    app, parcels = today(unique=True)
    with app.open(url) as space:
        for name, number in (("a", 1), ("b", "1"), ("c", "2")):
            space.cell(f"parcel:{name}", type=dict[str, Any]).value = {"number": number}
    opening, parts = members(app, parcels, url)
    with hw_space(opening):
        found = parts.migrate(parts.keys(), lambda _count: None)
        assert (found.fit, found.migrated, found.misfits) == (1, 1, 1)
        [(place, reason)] = found.places
        assert place == "parcel:b"
        assert reason == "parcel:b has the same number 1 as parcel:a"
        assert trees(opening, ["parcel:b"]) == {"parcel:b": {"number": "1"}}


def test_documents_of_every_user_are_migrated(tmp_path: Path) -> None:
    class Draft(hw.Doc):
        text: str = ""

    url, app = str(tmp_path / "drafts.db"), hw.App("drafts")
    drafts = app.collection(Draft, scope="user", indexes=[Draft.text], changes=[hw.renamed(Draft.text, was="body")])
    with app.open(url) as space:
        for user in ("ann", "bob"):
            space.cell(f"user:{user}!draft:1", type=dict[str, Any]).value = {"body": user}
    opening = app.made_opening(url, Options(), alone=True)
    app.declare_in(opening)
    parts = MigratedCollection(opening, drafts)
    with hw_space(opening):
        found = parts.migrate(parts.keys(), lambda _count: None)
        assert (found.migrated, found.documents) == (2, 2)
        assert to_json(opening.replica.read("user:bob/draft:1")) == {"text": "bob"}  # type: ignore[arg-type]


def test_the_record_names_former_names_and_types_until_all_are_migrated(tmp_path: Path) -> None:
    url = str(tmp_path / "parcels.db")
    app, parcels = today()
    with app.open(url) as space:
        space.cell("parcel:a", type=dict[str, Any]).value = {"number": "1"}
        fields = space.cell("collection:parcel", type=dict[str, Any]).value["fields"]
        assert fields["number"] == {"union": ["int", "str"]}
    opening, parts = members(app, parcels, url)
    with hw_space(opening):
        assert parts.narrow(parts.migrate(parts.keys(), lambda _count: None))
    for _ in range(2):
        with app.open(url) as space:
            assert space.cell("collection:parcel", type=dict[str, Any]).value["fields"]["number"] == "int"


def hw_space(opening: PlainOpening) -> hw.Space:
    """The block of an opening."""
    return hw.Space(opening)


def test_places_are_listed_for_the_first_ten() -> None:
    found = Findings("parcel", "Parcel")
    for number in range(12):
        found.add_misfit(f"parcel:{number}", "odd")
    assert (found.misfits, len(found.places)) == (12, 10)
