"""A program that prints what Headwater says of itself: errors with their calls, reasons, snapshots, signatures.

tests/app/test_both_forms.py runs it on the compiled form and on the sources, and compares what it prints.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import msgspec

import headwater as hw
from headwater import core
from headwater.core import freeze
from headwater.runtime.tracebacks import author_calls

app = hw.App("shop")
price = app.cell("price", 250)
amount = app.cell("amount", 2)
divisor = app.cell("divisor", 0)
order = app.cell("order", {"lines": [{"title": "tea"}]})


@app.computed
def total() -> int:
    return price.value * amount.value


@app.computed
def share() -> int:
    return total() // divisor.value


@app.computed
def line(number: int) -> str:
    return str(order.value["lines"][number]["title"])


@app.sink
def show() -> None:
    print(f"shown: {total()}")


@app.sink
def fragile() -> None:
    print(f"fragile: {share()}")


@app.handler
def buy(count: int) -> bool:
    if count > amount.value:
        raise hw.Reject("sold out")
    amount.value -= count
    return share() > 0


loop_app = hw.App("loop")
speed = loop_app.cell("speed", 0)


@loop_app.computed
async def duration() -> int:
    await asyncio.sleep(0)
    return 100 // speed.value


@loop_app.sink
async def report() -> None:
    print(duration())


def calls_inside(error: BaseException) -> list[str]:
    """Every call of an error, those inside Headwater as well."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}: {frame.line}" for frame in frames]


def title(text: str) -> None:
    print(f"--- {text}")


def fails(text: str, action: Callable[[], object]) -> None:
    """Print an error that has to be raised."""
    title(text)
    try:
        action()
    except Exception as error:  # noqa: BLE001  # of any kind
        show_error(error)
    else:
        raise AssertionError(f"{text} does not fail")


def show_error(error: BaseException) -> None:
    """An error and its causes, each as its author sees it, and then with the calls inside Headwater."""
    shown: BaseException | None = error
    while shown is not None:
        inside = calls_inside(shown)
        shown.__traceback__ = author_calls(shown)
        print("".join(traceback.format_exception(shown, chain=False)))
        print("all calls:", *inside, sep="\n  ")
        print("attributes:", {name: type(value).__name__ for name, value in vars(shown).items()})
        shown = shown.__cause__ or shown.__context__


def conflict(space: hw.Space) -> None:
    with space.transaction():
        before = price.value
        other = Thread(target=write_elsewhere)
        other.start()
        other.join()
        price.value = before + 1


def write_elsewhere() -> None:
    price.value = 300


def show_errors(space: hw.Space) -> None:
    fails("a function that fails", share)
    fails("a function with an argument that fails", lambda: line(7))
    fails("an argument that is missing", line)  # type: ignore[call-arg]
    fails("a value of another type", lambda: setattr(price, "value", "dear"))
    fails("a value that cannot be stored", lambda: setattr(order, "value", {"lines": object()}))
    fails("a number that JSON does not have", lambda: freeze({"rows": [{"price": float("nan")}]}))
    fails("an element that a list does not have", lambda: setattr(order.at("lines", 7), "value", "x"))
    fails("an address inside a number", lambda: setattr(order.at("lines", 0, "title", "x"), "value", "x"))
    fails("a key that a document does not have", lambda: space.doc("order", hw.AnyDoc)["colour"])  # type: ignore[index]
    fails("a transaction whose read has changed", lambda: conflict(space))
    fails("a question about something else", lambda: hw.why(buy.send))  # type: ignore[arg-type]
    fails("an event that fails", lambda: buy.once("first").send(1).result())
    fails("an event that is rejected", lambda: buy.once("second").send(5).result())
    fails("an event whose argument has another type", lambda: buy.send("two"))  # type: ignore[arg-type]


def show_reasons(space: hw.Space) -> None:
    title("reasons")
    for function in (total, share, show, fragile, buy):
        print(hw.why(function))
    print(hw.why(line, 0))
    title("graph")
    print(space.graph())
    print(space.graph("mermaid"))


def show_snapshots(space: hw.Space) -> None:
    title("snapshots")
    scheduler = space.scheduler
    shown = [
        scheduler.get_graph_snapshot(),
        scheduler.get_stats(),
        scheduler.get_filter_stats(),
        scheduler.get_event_counts(),
        scheduler.run_diagnosis(),
        [scheduler.get_action_stats(node) for node in space.nodes.values()],
        space.stats,
        scheduler.get_trace(),
    ]
    for each in shown:
        print(msgspec.json.format(msgspec.json.encode(each, enc_hook=str, order="deterministic")).decode())


def show_documentation() -> None:
    """What help() and editors show of what authors hold, and of the classes of the engine beneath."""
    title("documentation")
    for module in (hw, core):
        for name in sorted(dir(module)):
            thing = getattr(module, name)
            print(f"{module.__name__}.{name}{parameters_of(thing)}: {inspect.getdoc(thing)}")
            for member, found in inspect.getmembers(thing, inspect.isroutine) if isinstance(thing, type) else ():
                if not member.startswith("_"):
                    print(f"  {member}{parameters_of(found)}: {inspect.getdoc(found)}")


def parameters_of(thing: object) -> list[str]:
    """Names and kinds. Compiled functions keep neither annotations nor defaults that are no literals.

    `self` cannot be passed by name to compiled methods.
    """
    try:
        parameters = inspect.signature(thing).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    shown = (f"{each.kind.name} {each.name}{'' if each.default is each.empty else '=...'}" for each in parameters)
    return [each for each in shown if not each.endswith(" self")]


async def show_async_errors() -> None:
    """The same of an event loop."""
    title("a coroutine that fails")
    async with loop_app.aopen("memory:", on_error=show_error) as space:
        await space.settled()
        print(hw.why(duration))
        print(hw.why(report))


if __name__ == "__main__":
    with app.open("memory:", on_error=lambda error: print(f"reported: {error}")) as opened:
        for kind in ("registered", "invalidated", "started", "finished", "failed", "taken-back", "demand", "pass"):
            opened.scheduler.set_trace_enabled(kind, True)
        show_errors(opened)
        show_reasons(opened)
        show_snapshots(opened)
    asyncio.run(show_async_errors())
    show_documentation()
    sys.stdout.flush()
    total()  # no space is open: the error ends the program
