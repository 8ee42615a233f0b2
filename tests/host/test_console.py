"""What functions print and log is handed over with whose it is; what others write is not touched."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextvars import Context, copy_context

import msgspec
import pytest

import headwater as hw
from headwater.host.console_capture import PART_MAX, console
from tests.app.desk import Desk
from tests.app.holding import SAFETY_S, in_thread
from tests.app.shop import run


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    """No test leaves anything in the way of what others print."""
    before = (sys.stdout, sys.stderr, logging.getLogRecordFactory())
    yield
    assert not console().listeners
    assert (sys.stdout, sys.stderr, logging.getLogRecordFactory()) == before


# --- what is handed over ----------------------------------------------------------------------------------


def test_printed_line_is_handed_over_with_function_space_reason_and_run(desk: Desk) -> None:
    desk.sink("x is ")
    with desk.open():
        desk.x.value = 5
    first, second = desk.heard
    assert first == hw.Console(
        text="x is 0", stream="stdout", node="show", piece="", space="main", event=None, triggers=(), run=1
    )
    assert second == hw.Console(
        text="x is 5", stream="stdout", node="show", piece="", space="main", event=None, triggers=("desk.x",), run=2
    )
    assert (first.level, first.logger) == (None, None)


def test_what_is_handed_over_cannot_be_changed_and_can_be_sent(desk: Desk) -> None:
    desk.sink()
    with desk.open():
        pass
    [console] = desk.heard
    with pytest.raises(AttributeError):
        console.text = "other"  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(console), type=hw.Console) == console


def test_stderr_is_told_from_stdout(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    @desk.app.sink
    def show() -> None:
        print("out")
        print("err", file=sys.stderr)

    with desk.open():
        pass
    assert [(each.stream, each.text) for each in desk.heard] == [("stdout", "out"), ("stderr", "err")]
    assert capsys.readouterr() == ("out\n", "err\n")


def test_computed_is_named_whoever_calls_it(desk: Desk) -> None:
    @desk.app.computed
    def doubled() -> int:
        print("doubling")
        return desk.x.value * 2

    @desk.app.computed
    def times(factor: int) -> int:
        print("times")
        return desk.x.value * factor

    @desk.app.sink
    def show() -> None:
        print("before")
        doubled()
        print("after")

    with desk.open():
        assert [(each.node, each.text) for each in desk.heard] == [
            ("show", "before"),
            ("doubled", "doubling"),
            ("show", "after"),
        ]
        desk.heard.clear()
        times(3)
        assert [(each.node, each.text) for each in desk.heard] == [("times(3)", "times")]


def test_text_in_the_block_of_another_space_is_still_the_runs(desk: Desk) -> None:
    other = hw.App("other")

    @desk.app.sink
    def show() -> None:
        with other.open("memory:", space="second"):
            print("inside")

    with desk.open():
        pass
    assert [(each.node, each.space) for each in desk.heard] == [("show", "main")]


# --- lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("writes", "lines"),
    [
        (["a", "b", "\n"], ["ab"]),
        (["a\nb\nc\n"], ["a", "b", "c"]),
        (["a\nb", "c\n"], ["a", "bc"]),
        (["\n"], [""]),
        (["", "a\n", ""], ["a"]),
        (["a\n", "rest"], ["a", "rest"]),
        (["50%\r", "100%\r"], ["50%\r100%\r"]),
        (["one\r\n"], ["one\r"]),
    ],
)
def test_lines_are_put_together_and_forwarded_as_they_were(
    desk: Desk, capsys: pytest.CaptureFixture[str], writes: list[str], lines: list[str]
) -> None:
    @desk.app.sink
    def show() -> None:
        assert [sys.stdout.write(text) for text in writes] == [len(text) for text in writes]

    with desk.open():
        assert desk.texts == lines, "when the run has ended, not only when the space is closed"
        assert capsys.readouterr().out == "".join(writes)


def test_lines_written_at_once_are_put_together_likewise(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.app.sink(name="show")(lambda: sys.stdout.writelines(["a", "b\n", "c"]))
    with desk.open():
        pass
    assert (desk.texts, capsys.readouterr().out) == (["ab", "c"], "ab\nc")


def test_rest_of_a_line_is_handed_over_although_the_function_raises(desk: Desk) -> None:
    @desk.app.sink
    def show() -> None:
        print("so far", end="")
        raise ValueError("no further")

    with desk.open():
        pass
    assert desk.texts == ["so far"] and len(desk.errors) == 1


def test_flush_hands_over_what_there_is(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    @desk.app.sink
    def show() -> None:
        print("working", end=" ", flush=True)
        desk.heard.append(desk.heard[-1])
        print("done")

    with desk.open():
        pass
    assert desk.texts == ["working ", "working ", "done"]
    assert capsys.readouterr().out == "working done\n"


def test_line_of_many_characters_is_handed_over_in_parts(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    @desk.app.sink
    def show() -> None:
        for _ in range(PART_MAX + 2):
            sys.stdout.write("x")
        sys.stdout.write("\n")

    with desk.open():
        pass
    assert [len(text) for text in desk.texts] == [PART_MAX + 1, 1]
    assert capsys.readouterr().out == "x" * (PART_MAX + 2) + "\n"


def test_line_that_is_begun_when_the_listener_goes_is_handed_over_to_it(desk: Desk) -> None:
    later: list[hw.Console] = []
    spaces: list[hw.Space] = []

    @desk.app.sink
    def show() -> None:
        print(desk.x.value, end=" ")
        if desk.x.value:
            spaces[0].on_console = later.append
            print("two")

    with desk.open() as space:
        spaces.append(space)
        desk.heard.clear()
        desk.x.value = 1
        assert desk.texts == ["1 "]
        assert [each.text for each in later] == ["two"]


def test_line_that_a_thread_begins_when_its_run_is_just_over_is_handed_over_with_the_next(desk: Desk) -> None:
    around: list[Context] = []

    @desk.app.sink
    def show() -> None:
        around.append(copy_context())
        print("rest", desk.x.value, end="")

    def listen(console: hw.Console) -> None:
        if console.text == "rest 0":
            in_thread(lambda: around[0].run(print, "late", end=""))

    desk.answer = listen
    with desk.open():
        assert desk.texts == ["rest 0"]
        desk.x.value = 1
        assert sorted(desk.texts) == ["late", "rest 0", "rest 1"]


# --- what is forwarded ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "forwarded"),
    [(None, "x0\n"), ("other", "other\n"), ("", ""), ("two\nlines", "two\nlines\n")],
)
def test_answer_decides_what_is_forwarded(
    desk: Desk, capsys: pytest.CaptureFixture[str], answer: str | None, forwarded: str
) -> None:
    desk.answer = lambda _: answer
    desk.sink("x")
    with desk.open():
        pass
    assert (capsys.readouterr().out, desk.errors) == (forwarded, [])


def test_answer_for_a_line_without_an_end_gets_none(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.answer = lambda console: f"[{console.text}]"
    desk.sink(end="")
    with desk.open():
        pass
    assert capsys.readouterr().out == "[0]"


def test_empty_line_is_forwarded_unless_it_is_refused(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    @desk.app.sink
    def show() -> None:
        print()

    with desk.open():
        assert capsys.readouterr().out == "\n"


# --- what is not handed over ------------------------------------------------------------------------------


def test_without_a_listener_nothing_is_in_the_way(desk: Desk) -> None:
    before = (sys.stdout, sys.stderr, logging.getLogRecordFactory())
    seen: list[object] = []

    @desk.app.sink
    def show() -> None:
        seen.append((sys.stdout, sys.stderr, logging.getLogRecordFactory()))

    with desk.app.open("memory:") as space:
        assert space.on_console is None
        space.on_console = desk.listen
        assert space.on_console == desk.listen
        assert sys.stdout is not before[0]
        space.on_console = None
        assert (sys.stdout, sys.stderr, logging.getLogRecordFactory()) == before
        desk.x.value = 1
    assert seen == [before]


def test_opening_that_fails_leaves_nothing_in_the_way(desk: Desk) -> None:
    @desk.app.sink
    def show() -> None:
        raise KeyboardInterrupt

    before = sys.stdout
    with pytest.raises(KeyboardInterrupt):
        desk.open()
    assert sys.stdout is before


def test_plain_code_is_not_heard(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    sink = desk.app.sink(name="show")(lambda: print("run"))
    with desk.open() as space:
        print("around")
        with space.transaction():
            print("in a transaction")
        sink()
    assert desk.texts == ["run"]
    assert capsys.readouterr().out == "run\naround\nin a transaction\nrun\n"


def test_other_threads_are_not_heard_while_a_function_runs(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    @desk.app.sink
    def show() -> None:
        in_thread(lambda: print("elsewhere"))
        print("here")

    with desk.open():
        pass
    assert desk.texts == ["here"]
    assert capsys.readouterr().out == "elsewhere\nhere\n"


def test_every_space_hears_its_own_and_one_that_does_not_listen_nothing(desk: Desk) -> None:
    desk.sink("x is ")
    other: list[hw.Console] = []
    with (
        desk.open(),
        desk.app.open("memory:", space="second", on_console=other.append) as second,
        desk.app.open("memory:", space="third"),
    ):
        desk.x.value = 3
        with second.transaction():
            desk.x.value = 2
    assert [(each.space, each.text) for each in desk.heard] == [("main", "x is 0")]
    assert [(each.space, each.text) for each in other] == [("second", "x is 0"), ("second", "x is 2")]


def test_task_that_outlives_its_run_is_not_heard(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    go = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def later() -> None:
        print("during")
        await go.wait()
        print("after")

    @desk.app.sink
    async def show() -> None:
        tasks.append(asyncio.create_task(later()))
        await asyncio.sleep(0)

    async def main() -> None:
        async with desk.app.aopen("memory:", on_console=desk.listen) as space:
            await space.settle()
            go.set()
            await tasks[0]

    run(main())
    assert desk.texts == ["during"]
    assert capsys.readouterr().out == "during\nafter\n"


# --- async functions --------------------------------------------------------------------------------------


def test_text_after_an_await_is_still_the_functions(desk: Desk) -> None:
    @desk.app.computed
    async def slow() -> int:
        print("begun", end=", ")
        await asyncio.sleep(0)
        print("done")
        return desk.x.value

    @desk.app.sink
    async def show() -> None:
        print("one", end=" ")
        await asyncio.sleep(0)
        await asyncio.to_thread(print, "two")
        print("three")

    async def main() -> None:
        async with desk.app.aopen("memory:", on_console=desk.listen) as space:
            assert await space.fresh(slow) == 0
            desk.x.value = 1
            assert await space.fresh(slow) == 1

    run(main())
    told = [(each.node, each.text, each.triggers, each.run) for each in desk.heard]
    assert [each for each in told if each[0] == "slow"] == [
        ("slow", "begun, done", (), 1),
        ("slow", "begun, done", ("desk.x",), 2),
    ]
    assert [each[1] for each in told if each[0] == "show"] == ["two", "one three"], "the thread has its own line"


def test_runs_that_wait_at_the_same_time_do_not_mix_their_lines(desk: Desk) -> None:
    async def speak(name: str) -> None:
        for word in (name, "says", "hello"):
            print(word, end=" ")
            await asyncio.sleep(0)

    @desk.app.sink
    async def ann() -> None:
        await speak("ann")

    @desk.app.sink
    async def bob() -> None:
        await speak("bob")

    async def main() -> None:
        async with desk.app.aopen("memory:", on_console=desk.listen) as space:
            await space.settle()

    run(main())
    assert sorted((each.node, each.text) for each in desk.heard) == [
        ("ann", "ann says hello "),
        ("bob", "bob says hello "),
    ]


def test_rest_of_a_line_is_handed_over_when_the_run_is_cancelled(desk: Desk) -> None:
    started = asyncio.Event()

    @desk.app.sink
    async def show() -> None:
        print(desk.x.value, end="")
        started.set()
        try:
            await asyncio.sleep(0 if desk.x.value else SAFETY_S)
        finally:
            print(" ended", end="")

    async def main() -> None:
        async with desk.app.aopen("memory:", on_console=desk.listen):
            assert desk.texts == ["0 ended", "1 ended"]

    async def from_outside() -> None:
        # Opening waits until nothing is under way.
        opening = asyncio.create_task(main())
        await started.wait()
        desk.x.value = 1
        await opening

    run(from_outside())


# --- where it is said -------------------------------------------------------------------------------------


def test_first_run_is_heard_when_it_is_said_at_opening_in_a_loop(desk: Desk) -> None:
    desk.sink()

    async def main() -> None:
        async with desk.app.aopen("memory:", on_console=desk.listen) as space:
            assert desk.texts == ["0"]
            desk.x.value = 1
            await space.settle()
            assert desk.texts == ["0", "1"]

    run(main())


def test_first_run_is_heard_by_who_stays(desk: Desk) -> None:
    @desk.app.sink
    def show() -> None:
        print("once")
        signal.raise_signal(signal.SIGTERM)

    desk.app.run("memory:", on_console=desk.listen)
    assert desk.texts == ["once"]


def test_several_threads_may_run_and_print_at_once() -> None:
    """Each in a space of its own: nobody hears the other."""
    everything: dict[str, list[str]] = {}
    barrier = threading.Barrier(4)

    def work(name: str) -> None:
        heard = everything[name] = []
        app = hw.App(name)
        x = app.cell("x", 0)
        app.sink(name="show")(lambda: print(name, x.value))
        with app.open("memory:", space=name, on_console=lambda console: heard.append(console.text)):
            barrier.wait(SAFETY_S)
            for number in range(1, 50):
                x.value = number
            barrier.wait(SAFETY_S)

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SAFETY_S)
    assert everything == {f"t{n}": [f"t{n} {number}" for number in range(50)] for n in range(4)}
