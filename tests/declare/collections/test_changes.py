"""Fields that were renamed, retyped or dropped: a program starts at once on documents from before."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import pytest

import headwater as hw
from headwater.errors import DeclarationError, QueryError, SchemaError
from headwater.store.verification import verify
from tests.declare.collections.parcels import Former, Parcel, fill, former, today


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "parcels.db")


def stored(space: hw.Space, doc: object) -> Any:
    return space.cell(hw.id_of(doc), type=dict[str, Any]).value  # type: ignore[arg-type]


def check(space: hw.Space) -> None:
    report = space._opening.ask_store(verify)
    assert report.ok, report.findings


# --- reading ------------------------------------------------------------------------------------------------------


def test_former_documents_are_read_by_the_class_of_today(url: str) -> None:
    ids = fill(url, 3)
    app, parcels = today()
    with app.open(url) as space:
        found = parcels[ids[2]]
        assert (found.cents, found.number, list(found.items), found.items[0], len(found.items)) == (
            20,
            2,
            ["t2"],
            "t2",
            1,
        )
        assert "t2" in found.items
        made = Parcel(cents=5, number=7, items=["x"])
        assert (made.cents, made.number, list(made.items)) == (5, 7, ["x"])
        assert stored(space, made) == {"cents": 5, "number": 7, "items": ["x"]}
        assert stored(space, found)["amount"] == 20, "reading writes nothing"
        check(space)


def test_a_document_without_both_names_has_the_default(url: str) -> None:
    app, parcels = today()
    with app.open(url) as space:
        space.cell("parcel:bare", type=dict[str, Any]).value = {"number": "4"}
        assert (parcels["parcel:bare"].cents, list(parcels["parcel:bare"].items)) == (0, [])


def test_the_new_name_counts_where_a_document_has_both(url: str) -> None:
    app, parcels = today()
    with app.open(url) as space:
        space.cell("parcel:both", type=dict[str, Any]).value = {"number": 1, "amount": 3, "cents": 4}
        assert parcels["parcel:both"].cents == 4
        assert parcels.where(Parcel.cents == 4).count() == 1
        assert parcels.where(Parcel.cents == 3).count() == 0


def test_a_value_that_how_does_not_take_is_named_with_its_place(url: str) -> None:
    app, parcels = today()
    with hw.App("before").open(url) as space:
        space.cell("parcel:none", type=dict[str, Any]).value = {"number": [1]}
    with app.open(url) as space:
        space.cell("parcel:odd", type=dict[str, Any]).value = {"number": "seven"}
        with pytest.raises(SchemaError, match=r"parcel:odd/number: `how` of its change raised ValueError"):
            _ = parcels["parcel:odd"].number
        with pytest.raises(SchemaError, match="expected int"):
            _ = parcels["parcel:none"].number


def test_what_how_makes_has_the_new_type(url: str) -> None:
    class Crate(hw.Doc):
        count: int

    app = hw.App("crates")
    crates = app.collection(Crate, changes=[hw.retyped(Crate.count, was=str, how=str.strip)])  # type: ignore[type-var,unused-ignore]
    with app.open(url) as space:
        space.cell("crate:a", type=dict[str, Any]).value = {"count": "1"}
        with pytest.raises(SchemaError, match="what `how` makes of crate:a/count"):
            _ = crates["crate:a"].count


def test_text_becomes_a_link_to_the_document_that_how_finds(url: str) -> None:
    class Sender(hw.Doc):
        name: str

    class Bag(hw.Doc):
        sender: hw.Link[Sender]

    app = hw.App("bags")
    senders = app.collection(Sender, indexes=[Sender.name])
    bags = app.collection(
        Bag,
        changes=[hw.retyped(Bag.sender, was=str, how=lambda name: senders.where(Sender.name == name).one())],
    )
    with app.open(url) as space:
        ann = Sender(name="ann")
        space.cell("bag:a", type=dict[str, Any]).value = {"sender": "ann"}
        assert bags["bag:a"].sender == ann
        bags["bag:a"].sender = ann
        assert bags["bag:a"].sender.name == "ann"


# --- writing ------------------------------------------------------------------------------------------------------


def test_a_write_stores_the_new_name_and_removes_the_former_one(url: str) -> None:
    ids = fill(url, 2)
    app, parcels = today()
    with app.open(url) as space:
        found = parcels[ids[1]]
        found.cents += 1
        found.number += 1
        found.items.append("more")
        assert stored(space, found) == {"cents": 11, "number": 2, "items": ["t1", "more"], "colour": "red"}
        other = parcels[ids[0]]
        other.items[0] = "changed"
        del other.cents
        assert stored(space, other) == {"number": "0", "items": ["changed"], "colour": "red"}
        assert other.cents == 0
        check(space)


def test_writes_in_a_transaction_that_is_rolled_back_leave_the_former_document(url: str) -> None:
    ids = fill(url, 1)
    app, parcels = today()
    with app.open(url) as space:
        found = parcels[ids[0]]
        with pytest.raises(ZeroDivisionError), space.transaction():
            found.cents = 5
            assert found.cents == 5
            raise ZeroDivisionError
        assert found.cents == 0
        assert "amount" in stored(space, found)


# --- runs ---------------------------------------------------------------------------------------------------------


def test_a_computed_over_a_former_document_follows_both_names(url: str) -> None:
    ids = fill(url, 2)
    app, parcels = today()
    runs: list[int] = []

    @app.computed
    def price() -> int:
        found = parcels[ids[1]]
        runs.append(found.cents)
        return found.cents + found.number

    with app.open(url) as space:
        assert price() == 11
        whole = space.cell(ids[1], type=dict[str, Any])
        whole.at("amount", type=int).value = 50
        assert price() == 51, "a former program writes the former name"
        parcels[ids[1]].cents = 60
        assert price() == 61
        whole.at("number", type=str).value = "9"
        assert price() == 69
        count = len(runs)
        whole.at("colour", type=str).value = "blue"
        assert price() == 69
        assert len(runs) == count


def test_a_sum_over_former_documents_follows_each_change(url: str) -> None:
    ids = fill(url, 4)
    app, parcels = today()

    @app.computed
    def rich() -> int:
        return parcels.where(Parcel.cents >= 20).sum(Parcel.cents)

    @app.computed
    def numbers() -> list[int]:
        return parcels.where(Parcel.cents >= 20).scan().values(Parcel.number)

    with app.open(url) as space:
        assert (rich(), numbers()) == (50, [2, 3])
        space.cell(ids[0], type=dict[str, Any]).at("amount", type=int).value = 100
        assert (rich(), numbers()) == (150, [2, 3, 0])
        parcels[ids[0]].cents = 30
        assert rich() == 80
        parcels[ids[2]].number = 12
        assert sorted(numbers()) == [0, 3, 12]


def test_a_run_that_met_former_values_in_an_index_runs_again_when_they_are_gone(url: str) -> None:
    ids = fill(url, 2)
    app, parcels = today(unique=True)

    @app.computed
    def second() -> str:
        try:
            return str(parcels.where(Parcel.number == 1).count())
        except QueryError as error:
            return error.code

    with app.open(url):
        assert second() == "HW120"
        for each in ids:
            parcels[each].number = parcels[each].number
        assert second() == "1"


# --- queries ------------------------------------------------------------------------------------------------------


def test_an_index_of_a_renamed_field_is_right_before_the_migration(url: str) -> None:
    ids = fill(url, 5)
    app, parcels = today()
    with app.open(url) as space:
        Parcel(cents=25, number=100)
        assert parcels.where(Parcel.cents > 10).values(Parcel.cents) == [20, 25, 30, 40]
        assert parcels.max(Parcel.cents) == 40
        assert parcels.where(Parcel.cents == 30).ids() == [ids[3]]
        assert parcels.distinct(Parcel.cents) == [0, 10, 20, 25, 30, 40]
        check(space)


def test_a_query_over_former_values_of_an_index_is_refused_and_a_scan_is_not(url: str) -> None:
    fill(url, 3)
    app, parcels = today()
    with app.open(url):
        for ask in (
            lambda: parcels.where(Parcel.cents == 10, Parcel.number == 1).first(),
            lambda: parcels.where(Parcel.cents == 10).order_by(Parcel.number).first(),
            lambda: parcels.sum(Parcel.number),
        ):
            with pytest.raises(QueryError, match="headwater collections migrate MODULE:APP"):
                ask()
        assert [each.cents for each in parcels.where(Parcel.number == 1).scan()] == [10]
        assert parcels.scan().sum(Parcel.number) == 3
        assert parcels.scan().max(Parcel.number) == 2
        assert parcels.scan().group_by(Parcel.number).count() == {0: 1, 1: 1, 2: 1}
        assert [each.number for each in parcels.scan().order_by(Parcel.number, descending=True)] == [2, 1, 0]
        assert sorted(parcels.scan().distinct(Parcel.number)) == [0, 1, 2]


def test_restarted_queries_over_former_documents_do_not_run_again(url: str) -> None:
    fill(url, 3)
    app, parcels = today()

    @app.computed
    def total() -> int:
        return parcels.where(Parcel.cents > 5).sum(Parcel.cents)

    @app.sink
    def keep() -> None:
        total()

    for restored in (0, 1):
        with app.open(url) as space:
            assert total() == 30
            assert str(space._opening.explain_resume()).startswith(f"{restored} restored")


# --- declarations -------------------------------------------------------------------------------------------------


class Box(hw.Doc):
    count: int = 0
    label: str = ""
    state: Literal["open", "shut"] = "open"
    day: date | None = None
    tags: hw.List[str] = hw.List()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ("renamed", "is a list of hw.renamed, hw.retyped and hw.dropped, not 'renamed'"),
        (["renamed"], "and has 'renamed'"),
        ([hw.renamed(Box.count, was="label")], "'label' is a field of Box today"),
        ([hw.renamed(Box.count, was="")], "is text, not ''"),
        ([hw.renamed(Box.count, was=5)], "is text, not 5"),  # type: ignore[arg-type]
        ([hw.renamed("count", was="number")], "'count' is no field of Box"),
        ([hw.renamed(Parcel.cents, was="number")], "Parcel.cents is no field of Box"),
        ([hw.dropped("count")], "'count' is a field of Box today"),
        ([hw.dropped("old"), hw.renamed(Box.count, was="old")], "'old' is named twice"),
        ([hw.retyped(Box.count, was=str, how=5)], "how=... is a function"),  # type: ignore[call-overload]
        ([hw.retyped(Box.count, was=str, how=int), hw.retyped(Box.count, was=float, how=int)], "retyped twice"),
        ([hw.retyped(Box.count, was=int, how=abs)], "changed meaning cannot be recognized. Give the new field another"),
        ([hw.retyped(Box.label, was=Literal["a"], how=str)], "changed meaning cannot be recognized"),
        ([hw.retyped(Box.tags, was=str, how=str.split)], "is a container"),
    ],
)
def test_changes_that_say_nothing_are_refused(changes: Any, text: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        hw.App("boxes").collection(Box, changes=changes)
    assert text in caught.value.message
    assert caught.value.code == "HW110"


def test_an_index_that_cannot_tell_former_values_is_refused() -> None:
    with pytest.raises(DeclarationError, match="does not tell its former values from those of today"):
        hw.App("boxes").collection(
            Box, indexes=[Box.day], changes=[hw.retyped(Box.day, was=str, how=date.fromisoformat)]
        )


def test_a_choice_in_an_index_is_told_from_other_text(url: str) -> None:
    app = hw.App("boxes")
    boxes = app.collection(Box, indexes=[Box.state], changes=[hw.retyped(Box.state, was=str, how=str.lower)])  # type: ignore[type-var,unused-ignore]
    with app.open(url) as space:
        Box(state="shut")
        assert boxes.where(Box.state == "shut").count() == 1
        space.cell("box:a", type=dict[str, Any]).value = {"state": "OPEN"}
        assert boxes["box:a"].state == "open"
        with pytest.raises(QueryError, match=r"Box\.state in its former type"):
            boxes.where(Box.state == "open").count()
        boxes["box:a"].state = boxes["box:a"].state
        assert boxes.where(Box.state == "open").count() == 1


def test_two_apps_declare_the_same_changes_of_one_class() -> None:
    today()
    with pytest.raises(DeclarationError, match="other changes="):
        hw.App("other").collection(Parcel)


def test_a_program_of_before_is_refused_once_the_types_differ(url: str) -> None:
    fill(url, 1)
    app, _ = today()
    with app.open(url):
        pass
    with (
        pytest.raises(DeclarationError, match="declared as str, and this space has it as int or str"),
        former()[0].open(url),
    ):
        pass


# --- every type ---------------------------------------------------------------------------------------------------


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


KINDS: list[tuple[Any, Any, Any, list[object], object]] = [
    (int, str, int, ["1", "22"], 22),
    (float, str, float, ["1.5", "2"], 2.0),
    (str, int, str, [4], "4"),
    (bool, int, bool, [0, 1], True),
    (int, float, round, [2.0], 2),
    (datetime, int, at, [0], at(0)),
    (list[str], str, str.split, ["a b"], ["a", "b"]),
    (str, type(None), lambda _: "none", [None], "none"),
]


@pytest.mark.parametrize(("new", "was", "how", "values", "last"), KINDS)
def test_values_of_each_type_are_read_through_how(
    url: str, new: type, was: type, how: Any, values: list[object], last: object
) -> None:
    made: Any = type("Thing", (hw.Doc,), {"__annotations__": {"field": new}, "__module__": __name__})
    app = hw.App("things")
    things: Any = app.collection(made, changes=[hw.retyped(made.field, was=was, how=how)])
    with app.open(url) as space:
        found: Any = None
        for number, value in enumerate(values):
            space.cell(f"thing:{number}", type=dict[str, Any]).value = {"field": value}
            found = things[f"thing:{number}"]
            assert found.field == how(value)
        assert found.field == last
        found.field = found.field
        assert things.scan().values(made.field)[-1] == last


def test_the_former_class_keeps_its_own_fields() -> None:
    assert {name for name in vars(Former) if not name.startswith("_")} >= {"amount", "number"}
