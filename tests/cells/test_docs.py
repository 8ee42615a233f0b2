"""Documents as classes: declaring, making, reading, writing, identity."""

from __future__ import annotations

import typing as tp
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import headwater as hw
from headwater.errors import (
    ClosedError,
    DeclarationError,
    NotOpen,
    SchemaError,
    WriteError,
)
from tests.cells import outlines
from tests.cells.kit import Sent, inside, stored


@dataclass
class Size:
    width: int = 1
    height: int = 2


class Person(hw.Doc):
    name: str
    age: int = 0
    size: Size = Size()
    tags: list[str] = ["new"]  # noqa: RUF012
    boss: hw.Link[Person | None] = hw.Link()


class Employee(Person):
    salary: int = 100
    age: int = 18

    @property
    def title(self) -> str:
        return f"{self.name} ({self.salary})"

    @title.setter
    def title(self, value: str) -> None:
        self.name = value

    def raise_by(self, amount: int) -> None:
        self.salary += amount


class Task(hw.Doc):
    owner: hw.Link[Person]
    helper: hw.Link[Person | None] = hw.Link()
    title: str = "task"


app = hw.App("docs")
ann = app.doc("ann", Person)


@pytest.fixture
def space() -> Iterator[hw.Space]:
    with app.open("memory:") as space:
        yield space


# --- making and reading -----------------------------------------------------------------------------------------


def test_a_document_is_made_with_its_fields_and_the_defaults_of_the_rest(space: hw.Space) -> None:
    bob = Person(name="Bob", age=30)
    assert (bob.name, bob.age, bob.size, bob.tags, bob.boss) == ("Bob", 30, Size(), ["new"], None)
    assert stored(space, hw.id_of(bob)) == {
        "name": "Bob",
        "age": 30,
        "size": {"width": 1, "height": 2},
        "tags": ["new"],
        "boss": None,
    }
    assert hw.exists(bob)


def test_making_a_document_is_one_commit(space: hw.Space) -> None:
    sent = Sent(space)
    Person(name="Bob")
    assert len(sent.commits) == 1
    with space.transaction():
        boss = Person(name="Boss")
        Person(name="Bob", boss=boss)
    assert len(sent.commits) == 2


def test_a_declared_document_reads_its_defaults_until_it_is_written(space: hw.Space) -> None:
    assert not hw.exists(ann)
    assert (ann.age, ann.size, ann.tags, ann.boss) == (0, Size(), ["new"], None)
    with pytest.raises(SchemaError, match=r"docs\.ann/name has no value yet; write one, or declare it with a default"):
        _ = ann.name
    ann.age = 5
    assert stored(space, "docs.ann") == {"age": 5}
    assert hw.exists(ann)
    del ann.age
    assert ann.age == 0


def test_fields_are_checked_when_they_are_written(space: hw.Space) -> None:
    bob = Person(name="Bob")
    sent = Sent(space)
    with pytest.raises(SchemaError, match=r"cannot store person:\w+/age: expected int, got str 'x'"):
        bob.age = "x"  # type: ignore[assignment]
    with pytest.raises(SchemaError, match=r"cannot store Person\.age: expected int, got None"):
        Person(name="x", age=None)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"cannot store .*width in person:\w+/size: expected int, got str 'w'"):
        bob.size = Size("w")  # type: ignore[arg-type]
    assert sent.commits == []
    assert bob.age == 0


def test_a_field_may_be_added_to_in_place_where_python_can(space: hw.Space) -> None:
    bob = Employee(name="Bob")
    bob.age += 2
    bob.raise_by(5)
    assert (bob.age, bob.salary) == (20, 105)
    bob.title = "Robert"
    assert bob.title == "Robert (105)"
    assert stored(space, hw.id_of(bob))["name"] == "Robert"


def test_subclasses_have_the_fields_of_their_bases(space: hw.Space) -> None:
    bob = Employee(name="Bob")
    assert (bob.name, bob.age, bob.salary) == ("Bob", 18, 100)
    again = space.doc(hw.id_of(bob), Person)
    assert again.age == 18
    assert again == bob
    Task(owner=bob)
    assert Task(owner=bob).owner == bob
    assert type(Task(owner=bob).owner) is Person


def test_two_bases_are_read_in_the_order_of_python() -> None:
    class A(hw.Doc):
        x: int = 1
        a: int = 1

    class B(hw.Doc):
        x: int = 2
        b: int = 2

    class C(A, B):
        c: int = 3

    with app.open("memory:"):
        made = C()
        assert (made.x, made.a, made.b, made.c) == (1, 1, 2, 3)


# --- names ------------------------------------------------------------------------------------------------------


class Named(hw.Doc):
    id: str
    value: int = 1
    name: str = "n"
    items: hw.List[int] = hw.List()
    keys: int = 2
    update: int = 3
    exists: bool = False
    self: int = 4
    cls: int = 5
    fields: int = 6


def test_a_field_may_be_called_anything(space: hw.Space) -> None:
    made = Named(id="x", self=7, fields=8)
    assert (made.id, made.value, made.name, made.keys, made.update, made.exists) == ("x", 1, "n", 2, 3, False)
    assert (made.self, made.cls, made.fields) == (7, 5, 8)
    made.items.append(5)
    made.id = "y"
    made.value = 9
    assert (made.id, made.value, list(made.items)) == ("y", 9, [5])
    assert hw.id_of(made) != "y"
    assert stored(space, hw.id_of(made))["id"] == "y"


@pytest.mark.parametrize("name", ["", "\0", "a/b", "~", "\u2028", "mit Leerzeichen", "😀", "/"])
def test_a_field_may_have_a_name_that_is_no_identifier(space: hw.Space, name: str) -> None:
    kind: Any = type("Odd", (hw.Doc,), {"__annotations__": {name: int, "plain": str}, "__module__": __name__})
    made = kind(**{name: 5, "plain": "p"})
    assert getattr(made, name) == 5
    setattr(made, name, 6)
    assert getattr(made, name) == 6
    assert stored(space, hw.id_of(made)) == {name: 6, "plain": "p"}
    assert getattr(space.doc(hw.id_of(made), kind), name) == 6
    assert getattr(space.doc(hw.id_of(made)), name) == 6
    repr(made)


def test_names_with_an_underscore_and_class_variables_are_no_fields(space: hw.Space) -> None:
    class Thing(hw.Doc):
        a: int = 1
        _cache: int = 5
        limit: ClassVar[int] = 7
        bound: tp.ClassVar[int] = 8
        bare: ClassVar = 9
        text: ClassVar[int] = 10

    made = Thing()
    made._cache = 6
    assert stored(space, hw.id_of(made)) == {"a": 1}
    assert (made._cache, made.limit, made.bound, made.bare, made.text) == (6, 7, 8, 9, 10)
    with pytest.raises(SchemaError, match=r"no field '_cache'"):
        Thing(_cache=3)  # type: ignore[call-arg]


def test_an_unknown_field_is_refused_with_the_fields_there_are(space: hw.Space) -> None:
    bob = Person(name="Bob")
    sent = Sent(space)
    fields = r"its fields are name, age, size, tags, boss"
    with pytest.raises(SchemaError, match=rf"Person has no field 'nmae'; {fields}"):
        Person(nmae="x")  # type: ignore[call-arg]
    with pytest.raises(SchemaError, match=rf"Person has no field 'a', 'b'; {fields}"):
        Person(name="x", a=1, b=2)  # type: ignore[call-arg]
    with pytest.raises(SchemaError, match=rf"Person has no field 'nmae'; {fields}"):
        bob.nmae = "x"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = bob.nmae  # type: ignore[attr-defined]
    with pytest.raises(SchemaError, match=r"given by name: Person\(name=\.\.\., "):
        Person("Bob")  # type: ignore[call-arg,misc]
    assert sent.commits == []


def test_a_required_field_that_is_missing_is_refused(space: hw.Space) -> None:
    sent = Sent(space)
    with pytest.raises(SchemaError, match=r"Person\(\.\.\.\) needs name: str; it has no default"):
        Person()  # type: ignore[call-arg]
    with pytest.raises(SchemaError, match=r"Task\(\.\.\.\) needs owner: Person; it has no default"):
        Task()  # type: ignore[call-arg]
    assert sent.commits == []


# --- declaring --------------------------------------------------------------------------------------------------


def test_a_class_without_fields_is_a_class(space: hw.Space) -> None:
    class Empty(hw.Doc):
        pass

    made = Empty()
    assert stored(space, hw.id_of(made)) == {}
    assert hw.exists(made)
    with pytest.raises(SchemaError, match=r"Empty has no field 'x'; its fields are none"):
        made.x = 1  # type: ignore[attr-defined]


def test_the_base_itself_makes_nothing(space: hw.Space) -> None:
    with pytest.raises(DeclarationError, match=r"hw\.Doc is a base: declare a class with fields"):
        hw.Doc()
    for wrong in (hw.Doc, int, "Person", None):
        with pytest.raises(DeclarationError, match=r"is not a subclass of hw\.Doc with fields of its own"):
            space.doc("x", wrong)  # type: ignore[call-overload,type-var]


def test_a_type_that_cannot_be_stored_is_refused_when_the_class_is_used(space: hw.Space) -> None:
    class Wrong(hw.Doc):
        members: set[int]

    class Worse(hw.Doc):
        name: str = 5  # type: ignore[assignment]

    class Linked(hw.Doc):
        to: hw.Link[Person] = hw.Link()

    class Nowhere(hw.Doc):
        to: hw.Link[int]

    class Many(hw.Doc):
        to: hw.Link[Person | Task]

    class Several(hw.Doc):
        to: hw.Link[Person | Task | None]

    class Bare(hw.Doc):
        to: hw.Link  # type: ignore[type-arg]

    class Based(hw.Doc):
        to: hw.Link[hw.Doc]

    sent = Sent(space)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: Wrong(members={1}), r"Wrong\.members: set\[int\] cannot be stored; use list\[\.\.\.\]"),
        (Worse, r"the default of .*Worse\.name does not fit its type: .*expected str, got int 5"),
        (Linked, r"the default of .*Linked\.to does not fit its type: .*expected Person, got None"),
        (lambda: Nowhere(to=5), r"hw\.Link leads to documents: <class 'int'> is not a subclass of hw\.Doc"),
        (lambda: Many(to=ann), r"hw\.Link leads to documents: .*Person \| .*Task is not a subclass"),
        (lambda: Several(to=ann), r"hw\.Link leads to one class of documents, not to .*Person"),
        (lambda: Bare(to=ann), r"hw\.Link needs to know what it leads to: hw\.Link\[Person\]"),
        (lambda: Based(to=ann), r"hw\.Link\[hw\.Doc\] .* hw\.AnyDoc"),
    ]
    for make, message in cases:
        with pytest.raises(DeclarationError, match=message):
            make()
    assert sent.commits == []


def test_a_field_is_not_hidden_by_accident() -> None:
    with pytest.raises(DeclarationError, match=r"Sub\.age hides a field of Person: annotate it to change its default"):

        class Sub(Person):
            age = 5

    with pytest.raises(DeclarationError, match=r"Method\.age hides a field of Person"):

        class Method(Person):
            def age(self) -> int:  # type: ignore[override,misc]
                return 5

    with pytest.raises(DeclarationError, match=r"Variable\.age hides a field of Person"):

        class Variable(Person):
            age: ClassVar[int] = 5  # type: ignore[misc]


def test_fields_show_where_they_belong() -> None:
    assert repr(Person.__dict__["name"]) == "<field Person.name>"
    assert Employee.name is Person.__dict__["name"]  # type: ignore[comparison-overlap]


# --- classes that name each other -------------------------------------------------------------------------------


def test_classes_may_name_classes_that_come_later(space: hw.Space) -> None:
    root = outlines.Node(title="root")
    leaf = outlines.Node(title="leaf", parent=root)
    root.children.append(leaf)
    note = outlines.Note(node=leaf)
    leaf.notes["first"] = note
    assert root.children[0].notes["first"].node.parent == root
    assert stored(space, hw.id_of(root))["parent"] is None


def test_classes_made_in_a_function_may_name_what_stands_there(space: hw.Space) -> None:
    class Local(hw.Doc):
        name: str
        me: hw.Link[Local | None] = hw.Link()

    class User(hw.Doc):
        local: hw.Link[Local]
        more: hw.List[Local] = hw.List()

    one = Local(name="a")
    one.me = one
    user = User(local=one, more=[one])
    assert user.local.me == one
    assert user.more[0].name == "a"
    assert space.stats.documents >= 2


def test_names_in_quotes_within_a_type_are_found_in_a_function_too(space: hw.Space) -> None:
    made = outlines.in_a_function()
    assert made(space) == "found"


@pytest.mark.usefixtures("space")
def test_a_subclass_made_elsewhere_keeps_what_its_base_could_see() -> None:
    base = outlines.a_base()

    def elsewhere() -> type[hw.Doc]:
        class Other(hw.Doc):
            n: int = 1

        class Sub(base):  # type: ignore[valid-type,misc]
            other: hw.Link[Other | None] = hw.Link()

        return Sub

    kind: Any = elsewhere()
    made = kind()
    assert made.other is None
    assert made.hidden is None
    assert hw.exists(made)


def test_a_name_that_cannot_be_found_is_told_of(space: hw.Space) -> None:
    class Lost(hw.Doc):
        to: hw.Link[Nirvana]  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(DeclarationError, match=r"the types of .*Lost cannot be resolved: .*'Nirvana'.* module level"):
        Lost(to=ann)
    assert space.stats.commits == 0


# --- identity ---------------------------------------------------------------------------------------------------


def test_two_handles_of_one_document_are_equal(space: hw.Space) -> None:
    bob = Person(name="Bob")
    again = space.doc(hw.id_of(bob), Person)
    plain = space.doc(hw.id_of(bob))
    other = Person(name="Bob")
    assert again is bob
    assert plain == bob
    assert hash(plain) == hash(bob)
    assert other != bob
    assert bob != "Bob"
    assert space.doc("docs.ann", Person) == ann
    assert ann == space.doc("docs.ann", Person)
    assert {bob: 1, ann: 2}[space.doc("docs.ann", Person)] == 2
    assert len({bob, again, plain, other, ann}) == 3


def test_a_handle_reads_what_another_one_wrote(space: hw.Space) -> None:
    ann.name = "Ann"
    space.doc("docs.ann", Person).name = "Anna"
    assert ann.name == "Anna"
    assert space.doc("docs.ann").name == "Anna"


def test_documents_of_different_spaces_are_different() -> None:
    with app.open("memory:") as one:
        ann.name = "one"
        mine = one.doc("docs.ann", Person)
        with app.open("memory:") as two:
            ann.name = "two"
            assert one.doc("docs.ann", Person) != two.doc("docs.ann", Person)
            assert mine.name == "one"
            assert two.doc("docs.ann", Person).name == "two"
            with inside(one):
                assert ann.name == "one"


def test_a_document_may_be_an_argument_of_a_function() -> None:
    live = hw.App("live")
    rows: list[str] = []
    root = live.doc("root", outlines.Node)

    @live.computed
    def row(node: outlines.Node) -> str:
        return node.title.upper()

    @live.sink
    def show() -> None:
        rows.append(" ".join(row(node) for node in root.children))

    with live.open("memory:"):
        first = outlines.Node(title="a")
        root.children.append(first)
        first.title = "b"
        assert rows == ["", "A", "B"]


def test_handles_are_let_go_of(space: hw.Space) -> None:
    for n in range(10):
        Person(name=str(n))
    import gc

    gc.collect()
    assert len(space._opening.handles) == 0


# --- transactions -----------------------------------------------------------------------------------------------


def test_a_document_of_a_transaction_that_fails_does_not_exist(space: hw.Space) -> None:
    made: list[Person] = []
    with pytest.raises(ZeroDivisionError), space.transaction():
        made.append(Person(name="Bob"))
        assert made[0].name == "Bob"
        assert hw.exists(made[0])
        _ = 1 // 0
    assert not hw.exists(made[0])
    with pytest.raises(SchemaError, match=r"person:\w+/name .*does not exist"):
        _ = made[0].name
    assert space.stats.commits == 0


def test_ids_follow_from_the_cause_of_the_transaction() -> None:
    found = []
    for _ in range(2):
        with app.open("memory:") as space:
            tx = space._opening.begin(cause=["order", 17])
            from headwater.cells.context import CONTEXT
            from headwater.cells.context_frame import ContextFrame

            token = CONTEXT.set(ContextFrame(space._opening, tx, CONTEXT.get()))
            try:
                found.append([hw.id_of(Person(name="a")), hw.id_of(Person(name="b")), hw.id_of(Task(owner=ann))])
            finally:
                CONTEXT.reset(token)
            tx.commit()
    assert found[0] == found[1]
    assert len(set(found[0])) == 3
    assert [name.partition(":")[0] for name in found[0]] == ["person", "person", "task"]


def test_ids_without_a_cause_are_never_the_same(space: hw.Space) -> None:
    ids = {hw.id_of(Person(name="a")) for _ in range(20)}
    with space.transaction():
        ids |= {hw.id_of(Person(name="a")) for _ in range(20)}
    assert len(ids) == 40


def test_what_a_computed_makes_is_refused_like_any_write() -> None:
    live = hw.App("live")

    @live.computed
    def make() -> str:
        return Person(name="x").name

    with live.open("memory:") as space:
        with pytest.raises(WriteError, match=r"make\(\) is computed and may not write person:"):
            make()
        assert space.stats.commits == 0


def test_documents_need_an_open_space() -> None:
    with pytest.raises(NotOpen, match=r"Person\(\.\.\.\) needs an open space, and there is none here; wrap the code"):
        Person(name="x")
    with pytest.raises(NotOpen, match=r"ann/name has no open space here|ann has no open space here"):
        _ = ann.name
    with app.open("memory:"):
        bob = Person(name="Bob")
    with pytest.raises(ClosedError, match=r"person:\w+/name cannot be used: space 'main' was closed; open it again"):
        _ = bob.name
    with pytest.raises(ClosedError, match=r"was closed; open it again"):
        bob.name = "x"
