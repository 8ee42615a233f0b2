"""What cannot work is refused where it is written, with what was found and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

import headwater as hw
from headwater.errors import DeclarationError, NameRefusedError, UsageError
from tests.runtime.workflows.mill import Mill, Note

NAMES = ["", "a.b", "a/b", "a!b", "a b", "a\nb", "\ud800", "x" * 201, 3, None, b"a"]


@pytest.fixture
def mill() -> Mill:
    return Mill()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["topic", "connector"])
def test_a_name_that_cannot_be_kept_is_refused(mill: Mill, kind: str, name: Any) -> None:
    with pytest.raises(NameRefusedError, match=f"is not a name for a {kind}: printable characters without"):
        mill.flow.topic(name, Note) if kind == "topic" else mill.flow.connector(name)


@pytest.mark.parametrize("name", ["a.b", "a/b", "a b", "x" * 201, 3])
def test_a_handlers_name_is_looked_at_like_any_other(mill: Mill, name: Any) -> None:
    with pytest.raises(NameRefusedError, match="is not a name for a producer"):
        mill.flow.producer(every="5m", name=name)(lambda: None)
    with pytest.raises(NameRefusedError, match="is not a name for a consumer"):
        mill.flow.consumer(mill.notes, name=name)(mill.taker())


@pytest.mark.parametrize("name", ["a.b", "", 3])
def test_a_workflows_name_is_looked_at_like_any_other(mill: Mill, name: Any) -> None:
    with pytest.raises(UsageError):
        mill.app.workflow(name)


def test_names_of_any_script_are_fine(mill: Mill) -> None:
    topic = mill.flow.topic("заметки", Note)
    mill.flow.consumer(topic, name="本")(mill.taker())
    assert topic.address == "mill.notes.заметки"


def test_a_name_is_given_once(mill: Mill) -> None:
    flow = mill.flow
    flow.connector("mail")
    mill.take()
    flow.producer(every="5m", name="poll")(lambda: None)

    with pytest.raises(DeclarationError, match="has a topic 'notes' already; name it differently"):
        flow.topic("notes", Note)
    with pytest.raises(DeclarationError, match="has a connector 'mail' already"):
        flow.connector("mail")
    with pytest.raises(DeclarationError, match="has 'Take' already; choose another name with name="):
        mill.take()
    with pytest.raises(DeclarationError, match="has 'poll' already"):
        flow.consumer(mill.notes, name="poll")(mill.taker())
    with pytest.raises(DeclarationError, match="has 'Take' already"):
        flow.producer(every="5m", name="Take")(lambda: None)
    with pytest.raises(UsageError):
        mill.app.workflow("notes")


# --- producers ------------------------------------------------------------------------------------------------


def numbers() -> Iterator[int]:
    yield 1


async def async_numbers() -> Any:
    yield 1


class Poller:
    pass


@pytest.mark.parametrize("fn", [3, "poll", None, numbers, async_numbers, Poller])
def test_a_producer_is_a_plain_function(mill: Mill, fn: Any) -> None:
    with pytest.raises(DeclarationError, match=r"@flow.producer is put in front of a plain function.*, not of "):
        mill.flow.producer(every="5m")(fn)


def test_a_lambda_needs_a_name(mill: Mill) -> None:
    with pytest.raises(DeclarationError, match=r"needs a name for <function .*<lambda>.*: give it one with name="):
        mill.flow.producer(every="5m")(lambda: None)
    mill.flow.producer(every="5m", name="poll")(lambda: None)


def test_decorators_without_parentheses_say_so(mill: Mill) -> None:
    def poll() -> None:
        pass

    with pytest.raises(
        DeclarationError, match=r'written with parentheses: @flow.producer\(every="5m"\), not <function'
    ):
        mill.flow.producer(cast("None", poll))
    with pytest.raises(DeclarationError, match=r"written with parentheses: @flow.consumer\(notes\), not <class"):
        mill.flow.consumer(cast("hw.Topic[Any]", mill.taker()))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"every": "often"}, "is no duration"),
        ({"every": "10ms"}, "too often"),
        ({"every": "5m", "cron": "* * * * *"}, "keep one of them"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 9 * * *", "zone": "Europe/Berln"}, "Europe/Berlin"),
        ({"zone": "UTC"}, "only with a cron"),
        ({"every": "5m", "retry": 3}, r"retry=3; hw.Retry\(...\) is expected"),
        ({"every": "5m", "timeout": "soon"}, "is no duration"),
        ({"every": "5m", "timeout": 0}, "leaves no time at all"),
        ({"every": "5m", "timeout": {"prepar": "5s"}}, "names 'prepar', which is no phase; there is produce, prepare"),
        ({"every": "5m", "timeout": {"produce": None}}, "is no duration"),
        ({"every": "5m", "uses": "mail"}, r"uses='mail'; connectors, made with flow.connector\(...\), are expected"),
        ({"every": "5m", "uses": ["mail"]}, "connectors, made with"),
    ],
    ids=str,
)
def test_a_bad_argument_of_a_producer_is_named(mill: Mill, given: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        mill.flow.producer(**given)(numbers_once)


def numbers_once() -> None:
    pass


def stars(*state: int) -> None: ...
def named(**state: int) -> None: ...
def placed(state: int = 0, /) -> None: ...
def two(a: int = 0, b: int = 0) -> None: ...
def two_runs(a: hw.Run, b: hw.Run) -> None: ...


@pytest.mark.parametrize("fn", [stars, named, placed, two, two_runs])
def test_a_producer_takes_its_state_and_a_run_and_no_more(mill: Mill, fn: Callable[..., None]) -> None:
    with pytest.raises(DeclarationError, match=r"takes .*: a producer takes its state, and a run") as raised:
        mill.flow.producer(every="5m")(fn)
    assert fn.__name__ in str(raised.value) or fn is two_runs


def cursor(since: int) -> None: ...
def wrong_cursor(since: int = "a") -> None: ...  # type: ignore[assignment]  # that is what is refused
def lost_cursor(since: Missing = 0) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # likewise
def odd_cursor(since: set[int] | None = None) -> None: ...


@pytest.mark.parametrize(
    ("fn", "told"),
    [
        (cursor, r"of type int and has no default: give it one, or write `int \| None`"),
        (wrong_cursor, "'a' cannot be the default of its state: "),
        (lost_cursor, "its types cannot be resolved: name 'Missing' is not defined"),
        (odd_cursor, "use list"),
    ],
)
def test_a_state_that_cannot_be_kept_is_refused(mill: Mill, fn: Callable[..., None], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        mill.flow.producer(every="5m")(fn)


# --- consumers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [3, Poller, numbers_once, Note, None])
def test_a_consumer_is_a_class_of_its_own(mill: Mill, kind: Any) -> None:
    with pytest.raises(DeclarationError, match=r"in front of a class of hw.Consumer, not of "):
        mill.flow.consumer(mill.notes)(kind)


def test_consumers_name_topics_of_their_own_workflow(mill: Mill) -> None:
    other = mill.app.workflow("other").topic("notes", Note)
    with pytest.raises(DeclarationError, match="consumes nothing"):
        mill.flow.consumer()
    with pytest.raises(DeclarationError, match=r"'notes'\): a topic is expected, made with"):
        mill.flow.consumer(cast("hw.Topic[Any]", "notes"))
    with pytest.raises(DeclarationError, match=r"mill.other.notes\): this is mill.notes, and that a topic of another"):
        mill.flow.consumer(other)
    with pytest.raises(DeclarationError, match="named twice"):
        mill.flow.consumer(mill.notes, mill.notes)


@pytest.mark.parametrize("peek", [0, -1, 1001, 1.5, True, "many", None])
def test_how_much_is_shown_has_bounds(mill: Mill, peek: Any) -> None:
    with pytest.raises(DeclarationError, match="a number from 1 to 1000 is expected"):
        mill.take(consumer={"peek": peek})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"retry": "5"}, "retry='5'; hw.Retry"),
        (
            {"timeout": {"mutat": "5s"}},
            "'mutat', which is no phase; there is produce, prepare, mutate, next, reconcile",
        ),
        ({"timeout": timedelta(0)}, "leaves no time at all"),
        ({"timeout": -1}, "is no duration"),
        ({"uses": 3}, "connectors, made with"),
    ],
    ids=str,
)
def test_a_bad_argument_of_a_consumer_is_named(mill: Mill, given: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        mill.take(consumer=given)


def generator(_: object, pending: object) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("methods", "told"),
    [
        ({"prepare": None}, r"it has no prepare, which chooses events and returns a hw.Plan"),
        ({"prepare": lambda _: None}, r"write `def prepare\(self, pending\)`: too many positional"),
        ({"prepare": generator}, "prepare is <function generator.*; a plain or async method is expected"),
        ({"mutate": lambda _, run: None}, r"write `def mutate\(self, run, data\)`"),
        ({"mutate": 3}, "mutate is 3; a plain or async method"),
        ({"next": lambda _, run, data: None}, r"write `def next\(self, run, data, outcome\)`"),
        ({"reconcile": lambda _, run, data, more: None}, r"write `def reconcile\(self, run, data\)`: missing"),
        ({"__init__": lambda _, mail: None}, "created for each run, without arguments: missing a required"),
    ],
    ids=range(8),
)
def test_methods_that_could_never_be_called_are_refused(mill: Mill, methods: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        mill.take(**methods)


def test_static_methods_and_defaults_are_fine(mill: Mill) -> None:
    class Odd(hw.Consumer[Note, int, int]):
        @staticmethod
        def prepare(pending: Sequence[hw.Event[Note]], more: int = 0) -> hw.Plan[int]:
            return hw.Plan(more, take=pending)

        @classmethod
        def mutate(cls, run: hw.Run, data: int) -> int:
            mill.log.append((cls.__name__, data))
            return data

        def next(self, *args: object) -> None:
            mill.log.append(len(args))

    mill.flow.consumer(mill.notes)(Odd)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == [("Odd", 0), 3]


class Unkept(hw.Consumer[Note, "set[int]", int]):
    def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[set[int]]:
        return hw.Plan({1})


class Lost(hw.Consumer[Note, "Missing", int]):  # type: ignore[name-defined]  # that is what is refused
    def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[Any]:
        return hw.Plan(1)


class Forgetful(hw.Consumer[Note, int, int]):
    state: int

    def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[Any]:
        return hw.Plan(1)


class Mistaken(Forgetful):
    state: int = "a"  # type: ignore[assignment]  # that is what is refused


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Unkept, r"data.*set\[int\].*use list"),
        (Lost, "consumer Lost: its types cannot be resolved: name 'Missing' is not defined; declare them first"),
        (Forgetful, "consumer Forgetful: its state is of type int and has no default"),
        (Mistaken, "'a' cannot be the default of its state: "),
    ],
)
def test_types_that_cannot_be_kept_are_refused(mill: Mill, kind: Any, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        mill.flow.consumer(mill.notes)(kind)


# --- the rest -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"on_poison": "drop"}, "on_poison='drop'; 'block' or 'park' is expected"),
        ({"keep_runs": -1}, "keep_runs=-1 is no number of runs, nor None"),
        ({"keep_runs": True}, "keep_runs=True is no number"),
    ],
    ids=str,
)
def test_a_bad_argument_of_a_workflow_is_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        hw.App("other").workflow("other", **given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tries": -1}, "a number of retries, 0 or more"),
        ({"tries": 1.5}, "a number of retries, 0 or more"),
        ({"backoff": "x"}, "is no duration"),
        ({"max": -1}, "is no duration"),
        ({"on": "OSError"}, "classes of exceptions are expected"),
        ({"on": (OSError, 3)}, "classes of exceptions are expected"),
        ({"jitter": 2}, "a part from 0 to 1 is expected"),
    ],
    ids=str,
)
def test_a_bad_retry_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        hw.Retry(**given)


def test_there_is_one_fixer(mill: Mill) -> None:
    for bad in (3, None, numbers, Poller):
        with pytest.raises(DeclarationError, match="takes a function that returns source text or None, not"):
            mill.flow.fixer(cast("Callable[..., Any]", bad))
    mill.flow.fixer(lambda broken: None)
    with pytest.raises(DeclarationError, match="has a fixer already; keep one of them"):
        mill.flow.fixer(lambda broken: None)


@pytest.mark.parametrize("kind", [set[int], "Note", 3, Callable])
def test_a_topic_of_what_cannot_be_kept_is_refused(mill: Mill, kind: Any) -> None:
    with pytest.raises(DeclarationError, match="topic odd"):
        mill.flow.topic("odd", kind)


def test_what_nobody_consumes_is_refused_when_the_app_is_opened(mill: Mill) -> None:
    with pytest.raises(DeclarationError, match="neither a producer nor a consumer"), mill.open():
        pass
    mill.flow.producer(every="5m")(numbers_once)
    with pytest.raises(DeclarationError, match="no consumer takes topic notes"), mill.open():
        pass
    mill.take()
    mill.flow.consumer(mill.notes, name="other")(mill.taker())
    with pytest.raises(DeclarationError, match="topic notes is consumed by Take and by other"), mill.open():
        pass


def test_nothing_is_deployed_if_one_of_several_workflows_cannot_be(mill: Mill, tmp_path: Any) -> None:
    mill = Mill(tmp_path)
    mill.take()
    with mill.open():
        assert mill.flow.status.version == 1
    again = Mill(tmp_path)
    again.take(mutate=None)
    again.app.workflow("empty")
    with pytest.raises(DeclarationError, match="neither a producer"), again.open():
        pass
    with mill.open():
        assert mill.flow.status.version == 1


# --- connectors -----------------------------------------------------------------------------------------------


def test_operations_are_plain_functions_with_names(mill: Mill) -> None:
    mail = mill.flow.connector("mail")
    for bad in (3, None, numbers, async_numbers, Poller):
        with pytest.raises(DeclarationError, match=r"@mail.read is put in front of a plain function, not of"):
            mail.read(cast("Callable[..., Any]", bad))
    with pytest.raises(DeclarationError, match="has no name to be kept under; write it with def"):
        mail.mutation(lambda: None)
    mail.read(numbers_once)
    with pytest.raises(DeclarationError, match=r"connector mail has mail.numbers_once\(\) already"):
        mail.mutation(numbers_once)


def test_what_a_mutation_takes_and_returns_can_be_kept(mill: Mill) -> None:
    mail = mill.flow.connector("mail")

    def send_all(*to: str) -> None: ...
    def send_named(**to: str) -> None: ...
    def send_placed(to: str, /) -> None: ...
    def send_odd(to: set[str]) -> None: ...
    def send_for(to: str) -> set[str]: ...  # type: ignore[empty-body]  # never called

    unnamed: list[Callable[..., Any]] = [send_all, send_named, send_placed]
    for fn in unnamed:
        with pytest.raises(DeclarationError, match="cannot be kept by name; name what a mutation takes"):
            mail.mutation(fn)
    odd: list[Callable[..., Any]] = [send_odd, send_for]
    for fn in odd:
        with pytest.raises(DeclarationError, match="use list"):
            mail.mutation(fn)
    # A read is not kept: whatever it takes and returns is its own business.
    mail.read(send_for)
    mail.read(send_all)


def test_a_reconcile_names_what_is_known_of_the_call(mill: Mill) -> None:
    mail = mill.flow.connector("mail")

    @mail.read
    def look() -> None: ...

    @mail.mutation
    def send(to: str, text: str = "") -> None: ...

    def was_sent(key: str, address: str) -> hw.Answer[None]: ...  # type: ignore[empty-body]  # never called
    def is_sent(key: str, to: str, tries: int = 3) -> hw.Answer[None]: ...  # type: ignore[empty-body]  # likewise

    with pytest.raises(DeclarationError, match=r"mail.look\(\) only reads"):
        look.reconcile(was_sent)
    with pytest.raises(DeclarationError, match="nothing is known for address; of the call it may name key, to, text"):
        send.reconcile(was_sent)
    with pytest.raises(DeclarationError, match="is put in front of a function, not of 3"):
        send.reconcile(cast("Callable[..., Any]", 3))
    send.reconcile(is_sent)
    with pytest.raises(DeclarationError, match="has a reconcile already"):
        send.reconcile(is_sent)


def test_outcomes_are_compared_by_what_they_hold() -> None:
    same = [hw.Applied([1]), hw.NotApplied("no"), hw.Unknown(), hw.Skipped(), hw.Nothing()]
    again = [hw.Applied([1]), hw.NotApplied("no"), hw.Unknown(), hw.Skipped(), hw.Nothing()]
    assert same == again
    assert len({*same, *again}) == len(same)
    assert hw.Applied(1) != hw.Applied(2)
    assert hw.NotApplied("no") != hw.Unknown("no")
    assert hw.Applied(None) != hw.Skipped()
