"""Facts about functions are those of `inspect` and `typing`, also where they are found without them."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, wraps
from types import FunctionType, NoneType
from typing import Any, get_type_hints

import pytest

from headwater.declare.functions.function_code import (
    NO_PARAMETERS,
    is_async,
    is_generator,
    method_of,
    return_type_of,
    signature_of,
)


def plain() -> int:
    return 1


def nothing() -> None: ...


def untyped():  # type: ignore[no-untyped-def]  # noqa: ANN201
    return 1


def takes(number: int, *, flag: bool = False) -> str:
    return f"{number}{flag}"


def takes_all(*args: int, **kwargs: int) -> bytes:
    return bytes((*args, *kwargs.values()))


def generates() -> Iterator[int]:
    yield 1


async def waits() -> float:
    return 1.0


async def streams() -> AsyncIterator[int]:
    yield 1


@wraps(takes)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return takes(*args, **kwargs)


class Callable1:
    def __call__(self, number: int) -> int:
        return number


FUNCTIONS: list[Callable[..., object]] = [
    plain,
    nothing,
    untyped,
    takes,
    takes_all,
    generates,
    waits,
    streams,
    wrapped,
    partial(takes, 1),
    Callable1(),
]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: getattr(fn, "__name__", type(fn).__name__))
def test_facts_are_those_of_inspect(fn: Callable[..., object]) -> None:
    assert is_async(fn) is inspect.iscoroutinefunction(fn)
    assert is_generator(fn) is (inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn))
    signature = inspect.signature(fn)
    assert signature_of(fn).parameters == signature.parameters
    assert (signature_of(fn) is NO_PARAMETERS) is (not signature.parameters)


@pytest.mark.parametrize("fn", FUNCTIONS[:9], ids=lambda fn: fn.__name__)
def test_type_of_a_result_is_that_of_the_hints(fn: Callable[..., object]) -> None:
    hints = get_type_hints(fn, include_extras=True)
    assert return_type_of(fn) == (hints.get("return", Any), "return" in hints)


def test_type_of_a_result_is_that_of_each_function_and_not_of_its_code() -> None:
    def make() -> Callable[[], object]:
        def one() -> int:
            return 1

        return one

    changed = make()
    changed.__annotations__["return"] = str
    assert return_type_of(make()) == (int, True)
    assert return_type_of(changed) == (str, True)
    changed.__annotations__["return"] = "None"
    assert return_type_of(changed) == (NoneType, True)


def test_name_of_a_plain_type_may_mean_another_one() -> None:
    known: dict[str, Any] = {"int": bytes}
    exec("from __future__ import annotations\ndef shadowed() -> int: ...", known)  # noqa: S102  # a module of its own
    assert return_type_of(known["shadowed"]) == (bytes, True)


def test_type_that_is_not_defined_yet_is_an_error() -> None:
    known: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef early() -> Later: ...", known)  # noqa: S102  # as above
    with pytest.raises(NameError, match="Later"):
        return_type_of(known["early"])


def test_function_that_is_marked_as_async_is() -> None:
    if not hasattr(inspect, "markcoroutinefunction"):
        pytest.skip("Python 3.12")

    def marked() -> object:
        return waits()

    inspect.markcoroutinefunction(marked)
    assert is_async(marked)


def test_method_is_told_by_its_class() -> None:
    assert method_of(Callable1.__call__) == "Callable1"
    assert method_of(plain) is None
    assert method_of(takes) is None


def test_asking_for_the_type_of_a_result_makes_no_dict_in_the_function() -> None:
    """Python keeps the dict that `__annotations__` makes."""
    if sys.version_info >= (3, 14):
        pytest.skip("annotations are made by a function")

    def make(many: int = 3) -> Callable[[], object]:
        def one() -> int:
            return many

        return one

    def dicts(fn: FunctionType) -> list[object]:
        known = fn.__builtins__  # type: ignore[attr-defined]  # since 3.10
        return [each for each in gc.get_referents(fn) if isinstance(each, dict) and each is not known]

    bare = eval("lambda: 1")  # noqa: S307  # has no annotations
    for fn, expected in ((make(), (int, True)), (bare, (Any, False))):
        assert isinstance(fn, FunctionType)
        assert return_type_of(fn) == expected
        assert dicts(fn) == [fn.__globals__]
    assert one_of(make()) == {"return": "int"}, "the annotations are still there"


def one_of(fn: Callable[[], object]) -> dict[str, object]:
    return fn.__annotations__


def test_type_of_a_result_is_not_taken_from_a_default_or_an_attribute() -> None:
    def given(words: tuple[str, str] = ("return", "int")) -> bytes:
        return repr(words).encode()

    def marked() -> str:
        return ""

    marked.returns = {"return": "int"}  # type: ignore[attr-defined]
    assert return_type_of(given) == (bytes, True)
    assert return_type_of(marked) == (str, True)
    untyped: Callable[..., object] = eval("lambda words=('return', 'int'): words")  # noqa: S307  # has no annotations
    assert return_type_of(untyped) == (Any, False)
