"""What events carry comes to the function as its author has declared it, however it takes it."""

from collections.abc import Callable

import pytest

import headwater as hw
from headwater.errors import DeclarationError, SchemaError

Handler = hw.Handler[..., object]


def handled(fn: Callable[..., object], send: Callable[[Handler], hw.Ticket[object]]) -> object:
    app = hw.App("desk")
    handler = app.handler(fn)
    with app.open("memory:"):
        return send(handler).result()


def by_name_alone(*, payload: int) -> int:
    return payload


def by_place_alone(payload: int, /) -> int:
    return payload


def mixed(first: int, /, second: int = 2, *, third: int = 3) -> list[int]:
    return [first, second, third]


def test_parameter_with_a_name_alone_is_given_by_its_name() -> None:
    """Also if it has the name that the value of a stream has inside."""
    assert handled(by_name_alone, lambda handler: handler.send(payload=4)) == 4
    assert handled(by_name_alone, lambda handler: handler.send_fields({"payload": 4})) == 4


def test_parameter_with_a_place_alone_is_a_field_as_others_are() -> None:
    assert handled(by_place_alone, lambda handler: handler.send(4)) == 4
    assert handled(by_place_alone, lambda handler: handler.send_fields({"payload": 4})) == 4


@pytest.mark.parametrize(
    ("args", "kwargs", "wanted"),
    [
        ((1,), {}, [1, 2, 3]),
        ((1, 5), {}, [1, 5, 3]),
        ((1,), {"second": 6, "third": 7}, [1, 6, 7]),
        ((1, 5), {"third": 7}, [1, 5, 7]),
    ],
)
def test_arguments_come_as_they_would_in_a_call(
    args: tuple[int, ...], kwargs: dict[str, int], wanted: list[int]
) -> None:
    assert handled(mixed, lambda handler: handler.send(*args, **kwargs)) == wanted


def test_too_many_or_too_few_are_refused_as_a_call_would() -> None:
    for send in (
        lambda handler: handler.send(),
        lambda handler: handler.send(1, 2, 3),
        lambda handler: handler.send(1, fourth=4),
    ):
        with pytest.raises(TypeError, match=r"mixed\(\): .*it takes first: "):
            handled(mixed, send)


def test_what_an_older_version_sent_is_completed_or_refused() -> None:
    """What is missing has its default, of its type; what has none is refused."""
    app = hw.App("desk")
    handler: Handler = app.handler(mixed)
    with app.open("memory:") as space:
        home, tx = space, space._opening.untracked
        assert handler.payload.call(mixed, home._opening, tx, {"first": 1, "third": 9}) == [1, 2, 9]
        with pytest.raises(SchemaError, match="sent by another version of the program"):
            handler.payload.call(mixed, home._opening, tx, {"second": 1})


def test_handler_of_a_stream_takes_its_value_by_place() -> None:
    """One that has a name alone could never be given it: that is told when it is declared."""
    app = hw.App("desk")
    clicks = app.stream("clicks", int)
    with pytest.raises(DeclarationError, match="it takes one parameter"):
        app.handler(on=clicks)(by_name_alone)
    app.handler(on=clicks)(by_place_alone)
    with app.open("memory:"):
        assert clicks.send(3).result() == 3
