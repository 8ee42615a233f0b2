"""pydantic models: what they say of their fields is checked by them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from datetime import date
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar

import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator

from headwater.errors import DeclarationError, FrozenError
from headwater.values.hints import infer, schema_of
from headwater.values.intake import RefusedError
from headwater.values.tree import ABSENT, freeze, same
from tests.values.schema.shapes import Note, Point

T = TypeVar("T")


class User(BaseModel):
    name: str = Field(min_length=1)
    age: Annotated[int, Field(ge=0)] = 0
    born: date | None = None
    tags: list[str] = []
    by_year: dict[int, list[int]] = Field(default_factory=dict)
    note: Optional[Note] = None  # noqa: UP045
    point: Point | None = None
    friends: list[User] = []
    _secret: int = pydantic.PrivateAttr(default=3)


class Stiff(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str
    tags: list[str] = []


class Watched(BaseModel):
    model_config = ConfigDict(validate_assignment=True)
    amount: int = Field(gt=0)


class Aliased(BaseModel):
    first: str = Field(alias="firstName")
    second: str = Field(validation_alias=AliasChoices(AliasPath("x", 0), "secondName"), default="")


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)
    first: str = Field(alias="firstName")


class Normal(BaseModel):
    name: str
    tags: list[str] = []

    @field_validator("name")
    @classmethod
    def lower(cls, name: str) -> str:
        return name.lower()

    @field_validator("tags")
    @classmethod
    def sort(cls, tags: list[str]) -> list[str]:
        return sorted(tags)


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def check(self) -> Range:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Derived(BaseModel):
    a: int
    b: int = Field(default_factory=lambda data: data["a"] * 2)


class Boxed(BaseModel, Generic[T]):
    item: T


class Raising(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def fail(cls, a: int) -> int:
        raise RuntimeError(f"{a} has no errors to list")


def round_trip(value: BaseModel) -> Any:
    schema = schema_of(type(value))
    return schema.load(schema.store(value), None)


USER = User(
    name="ann",
    born=date(2024, 1, 2),
    tags=["a"],
    by_year={1999: [1]},
    note=Note("n", tags=["t"]),
    point=Point(1, path=[2]),
    friends=[User(name="bob")],
)


@pytest.mark.parametrize(
    "value",
    [
        USER,
        Stiff(name="a", tags=["b"]),
        Watched(amount=1),
        Aliased.model_validate({"firstName": "a", "secondName": "b"}),
        ByName.model_validate({"first": "a"}),
        Normal(name="a"),
        Range(low=1, high=2),
        Derived(a=1),
        Boxed[int](item=1),
        Boxed[list[str]](item=["a"]),
    ],
)
def test_model_goes_both_ways(value: Any) -> None:
    back = round_trip(value)
    assert back == value
    assert value == back
    assert isinstance(back, type(value))
    assert repr(back) == repr(value)
    assert back.model_dump() == value.model_dump()
    assert back.model_dump_json() == value.model_dump_json()


def test_model_is_stored_by_the_names_of_its_fields() -> None:
    assert same(schema_of(Aliased).store(Aliased(firstName="a")), freeze({"first": "a", "second": ""}))
    assert schema_of(User).field_default("age") == 0
    assert same(schema_of(User).field_default("by_year"), freeze({}))
    assert schema_of(User).field_default("name") is ABSENT
    assert schema_of(Derived).field_default("b") is ABSENT
    assert schema_of(User).child("born") is schema_of(date | None)


def test_everything_in_a_model_that_was_read_is_frozen() -> None:
    user = round_trip(USER)
    for write in (
        lambda: user.tags.append("x"),
        user.by_year.clear,
        lambda: user.by_year[1999].append(1),
        lambda: user.note.tags.append("x"),
        lambda: setattr(user.note, "title", "x"),
        lambda: user.point.path.append(1),
        lambda: user.friends.append(1),
        lambda: user.friends[0].tags.append("x"),
        lambda: setattr(user.friends[0], "name", "x"),
        lambda: setattr(user, "_secret", 5),
        lambda: delattr(user, "name"),
    ):
        with pytest.raises(FrozenError):
            write()
    missing: Any = schema_of(User).load(freeze({"name": "a"}), None)
    with pytest.raises(FrozenError):
        missing.tags.append("x")
    with pytest.raises(FrozenError):
        round_trip(Stiff(name="a", tags=["b"])).tags.append("x")
    with pytest.raises(FrozenError, match=r"cell\.value = cell\.value\.model_copy\(update=\{'name': \.\.\.\}\)"):
        user.name = "b"
    assert type(round_trip(Stiff(name="a"))) is Stiff


def test_copies_of_a_model_that_was_read_are_plain() -> None:
    user = round_trip(USER)
    for made in (
        user.model_copy(update={"name": "ann"}),
        user.model_copy(deep=True),
        copy.copy(user),
        copy.deepcopy(user),
        pickle.loads(pickle.dumps(user)),  # noqa: S301
        type(user)(**dict(user)),
        User.model_validate(user.model_dump()),
    ):
        assert made == USER
        assert type(made) is User
        made.name = "changed"
    assert user._secret == 3
    assert infer(user) is schema_of(User)


def test_fields_that_were_not_stored_count_as_not_set() -> None:
    loaded: Any = schema_of(User).load(freeze({"name": "a"}), None)
    assert loaded.model_fields_set == {"name"}


@pytest.mark.parametrize(
    ("hint", "tree", "reason"),
    [
        (User, {"name": ""}, "must have a length of at least 1, got 0"),
        (User, {"name": "a", "age": -1}, "must be at least 0, got int -1"),
        (Range, {"low": 2, "high": 1}, "Range refuses it: Value error, low is above high"),
        (Raising, {"a": 1}, "Raising refuses it: 1 has no errors to list"),
        (User, {}, "field 'name' is missing"),
    ],
)
def test_what_the_model_refuses_cannot_be_read(hint: Any, tree: Any, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).load(freeze(tree), None)
    assert caught.value.reason == reason


def test_model_that_became_invalid_is_not_stored() -> None:
    user = User(name="a")
    user.name = ""
    with pytest.raises(RefusedError) as caught:
        schema_of(User).store(user)
    assert caught.value.reason == "must have a length of at least 1, got 0"
    user.name = 5  # type: ignore[assignment]
    with pytest.raises(RefusedError) as caught:
        schema_of(User).store(user)
    assert (caught.value.reason, caught.value.steps) == ("expected str, got int 5", ["name"])


def test_model_has_the_last_word_on_what_is_read() -> None:
    loaded: Any = schema_of(Normal).load(freeze({"name": "ANN", "tags": ["b", "a"]}), None)
    assert loaded.name == "ann"
    assert loaded.tags == ["a", "b"]
    with pytest.raises(FrozenError):
        loaded.tags.append("c")


class Later(BaseModel):
    other: Missing  # type: ignore[name-defined]  # noqa: F821


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")


class Rooted(RootModel[list[int]]):
    pass


class ByPath(BaseModel):
    a: int = Field(validation_alias=AliasPath("x", 0))


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Recursive(BaseModel):
    parts: list[Leaf] = []


class Leaf(BaseModel):
    whole: Recursive | None = None


def test_models_may_name_each_other() -> None:
    schema = schema_of(Recursive)
    value = Recursive(parts=[Leaf(whole=Recursive())])
    assert schema.load(schema.store(value), None) == value


def test_models_are_told_apart_by_tags() -> None:
    schema = schema_of(Cat | Dog)
    assert isinstance(schema.load(schema.store(Dog()), None), Dog)


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (Later, "Later is not complete: .*Missing"),
        (Extra, "Extra has extra='allow'"),
        (Rooted, "Rooted is a RootModel"),
        (ByPath, r"field 'a' of ByPath is found by a path \(AliasPath\)"),
    ],
)
def test_model_that_could_not_be_read_back_cannot_be_declared(hint: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        schema_of(hint)


def test_pydantic_is_not_imported_for_those_who_do_not_use_it() -> None:
    code = (
        "import sys, dataclasses\n"
        "sys.modules['pydantic'] = None\n"
        "from headwater.values.hints import schema_of\n"
        "Note = dataclasses.make_dataclass('Note', [('a', int)])\n"
        "assert schema_of(Note).store(Note(1)) == {'a': 1}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
