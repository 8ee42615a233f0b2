"""V: at quiet, every value of a generated app is what the naive model computes from the documents.

And INV-1, I4: every commit of a handler or block is what the model makes of the state before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from types import ModuleType
from typing import Any, Final, TypeAlias

from headwater.errors import HeadwaterError
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.values.address import doc_key
from sim.apps import parts as p
from sim.apps.naive import Model, ModelError, Refusal
from sim.apps.source import APP, MODULUS
from sim.oracles.moments import Complain, Moment

BESIDE: Final = 20
"""Commits of other threads while one transaction is open, at most."""

Ask: TypeAlias = Callable[..., Any]
"""Calls a function of the app with arguments."""


def seen(call: Any, *arguments: object) -> object:  # a function of the app
    """What a call of a function of the app answers, or the name of the exception."""
    try:
        return call(*arguments)
    except HeadwaterError as error:
        return f"{type(error).__name__} {error}"
    except Exception as error:  # noqa: BLE001  # what generated functions raise
        return f"raises {type(error).__name__}"


def expected(model: Model, name: str, argument: int | None = None) -> object:
    """What the model answers."""
    try:
        return model.value(name, argument)
    except ModelError as error:
        return f"raises {error.kind}"


def check_screens(  # noqa: C901  # one case for each kind
    model: Model,
    shown: Mapping[str, object],
    complain: Complain,
    *,
    without: Collection[str] = (),
    stopped: Collection[str] = (),
) -> None:
    """What sinks have shown last, and what they and materializers have written.

    `without`: those that are not checked. `stopped`: those that were stopped in another session. Such a session may
    have written last, at a moment between two that this one has seen: a value that is as before runs no sink (I3).
    """
    for part in model.app.parts:
        if part.name in without:
            continue
        match part:
            case p.Sink(name):
                _check_sink(model, part, shown, complain, is_alone=part.name in stopped)
            case p.Materializer(name, source, target):
                found = [str(each % 5) for each in model.cell(source)]
                counts = {each: found.count(each) for each in found}
                if model.cell(target) != counts:
                    complain("V", f"materializer {name}: {target} is {model.cell(target)}, expected {counts}")
            case p.Ring(name, seed, lit):
                wanted = model.cell(seed) * 2 + 1 if model.cell(lit) else -1
                if shown.get(name) != wanted:
                    complain("V", f"ring {name} shows {shown.get(name)}, expected {wanted}")
            case p.Patient(name, cell):
                if shown.get(name) != model.cell(cell):
                    complain("V", f"patient {name} shows {shown.get(name)}, expected {model.cell(cell)}")
            case p.Restless(name, seed, limit):
                here, there = model.cell(seed), model.cell(name)
                if (here < limit and there != here + 1) or (there < limit and here != there + 1):
                    complain("V", f"restless {name}: {seed} is {here}, {name} is {there}, limit {limit}")


def _check_sink(model: Model, part: p.Sink, shown: Mapping[str, object], complain: Complain, *, is_alone: bool) -> None:
    try:
        wanted = tuple(model.eval(each, None) for each in part.shows)
    except ModelError:
        return
    if not part.quiet or part.name in shown:
        found = shown.get(part.name, "nothing")
        if found != wanted:
            complain("V", f"sink {part.name} shows {found}, expected {wanted}")
    if is_alone:
        return
    total = sum(wanted) % MODULUS
    if part.target and model.cell(part.target) != total:
        complain("V", f"sink {part.name} wrote {model.cell(part.target)}, expected {total}")
    handler = model.app.named().get(part.sends)
    if isinstance(handler, p.Handler) and isinstance(put := handler.steps[0], p.Put) and model.cell(put.cell) != total:
        complain("V", f"sink {part.name} sent {total} last, and {put.cell} is {model.cell(put.cell)}")


def check_calls(
    app: p.App,
    module: ModuleType,
    model: Model,
    complain: Complain,
    *,
    ask: Ask = lambda function, *given: function(*given),
) -> None:
    """Call every function of the app. `ask`: how; a plain call does not wait for an async function."""
    for part in app.parts:
        name = part.name
        function = getattr(module, name)
        match part:
            case p.Computed(takes="") | p.Choice():
                pairs = [(seen(ask, function), expected(model, name))]
            case p.Computed(takes="int"):
                pairs = [(seen(ask, function, each), expected(model, name, each)) for each in (0, 2)]
            case p.Derived() | p.Listing():
                pairs = [(_summed(ask, function), expected(model, name))]
            case _:
                continue
        for found, wanted in pairs:
            if found != wanted:
                complain("V", f"{name} answers {found}, expected {wanted}")


def _summed(ask: Ask, function: Any) -> object:  # a derived list
    def total() -> int:
        return sum(each if isinstance(each, int) else each.n for each in ask(function)) % MODULUS

    return seen(total)


def ledger(documents: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of handlers and blocks that have committed."""
    found: list[dict[str, Any]] = documents.get(f"{APP}.ledger", [])
    return found


def reached(app: p.App, nodes: Iterable[p.Node]) -> set[str]:
    """The names of all parts that declarations or steps refer to, also through others."""
    parts = app.named()
    found: set[str] = set()
    todo = [name for node in nodes for name in p.names_in(node)]
    while todo:
        name = todo.pop()
        if name not in found and name in parts:
            found.add(name)
            todo += p.names_in(parts[name])
    return found


def check_history(
    app: p.App,
    moments: Iterable[Moment],
    blocks: Mapping[str, tuple[p.Step, ...]],
    complain: Complain,
    *,
    gated: AbstractSet[str] = frozenset(),
) -> None:
    """Each commit with an entry of the ledger: the model, in the state before it, changes the same in the same way."""
    parts = app.named()
    delayed = {part.name for part in app.parts if _may_be_late(part)} | gated
    resting = _resting(app)
    earlier: deque[Mapping[str, Any]] = deque(maxlen=BESIDE)
    for moment in moments:
        earlier.append(moment.before)
        entries = ledger(moment.after)
        new = entries[len(ledger(moment.before)) :]
        if len(new) != 1:
            if new:
                complain("INV-1", f"commit {moment.seq} has {len(new)} entries of the ledger")
            continue
        entry = new[0]
        part = parts.get(entry["by"])
        if entry["by"] == "block":
            steps: tuple[p.Step, ...] = blocks.get(entry["tag"], ())
            if delayed and not delayed.isdisjoint(reached(app, steps)):
                # Plain code gets the last value of a function that waits for its time, and of an async one that runs.
                continue
            result: p.Expr = p.Const(0)
        elif isinstance(part, p.Handler):
            steps, result = part.steps, part.result
        else:
            continue
        if resting and not resting.isdisjoint(reached(app, [*steps, result])):
            continue
        if _catches_refusal(app, result) or any(_catches_refusal(app, each) for each in steps):
            continue
        _check_commit(app, moment, entry, (steps, result), complain, earlier=earlier)


def _may_be_late(part: p.Part) -> bool:
    return any(getattr(part, each, 0) for each in ("debounce", "throttle", "waits"))


def _catches_refusal(app: p.App, node: p.Node) -> bool:
    """Whether it catches every error of a call that may be refused.

    A call of a function that is async or writes is refused in a transaction that has written (reference, transactions).
    The model does not know whether a write before it had an effect.
    """
    if isinstance(node, p.Catch) and node.kind == "Exception":
        parts = app.named()
        called = (parts[name] for name in reached(app, [node.value]))
        if any(getattr(part, "waits", 0) or getattr(part, "target", "") for part in called):
            return True
    return any(_catches_refusal(app, each) for each in p.inside(node))


def _resting(app: p.App) -> set[str]:
    """Functions that may rest, as what they read does not settle: callers get their last value, and no event waits."""
    seeds = {part.seed for part in app.parts if isinstance(part, p.Restless) and part.limit >= RUNS_MAX}
    functions = (part for part in app.parts if isinstance(part, p.Computed | p.Listing | p.Derived | p.Choice))
    return {part.name for part in functions if not seeds.isdisjoint(reached(app, [part]))} if seeds else set()


def _check_commit(
    app: p.App,
    moment: Moment,
    entry: dict[str, Any],
    body: tuple[tuple[p.Step, ...], p.Expr],
    complain: Complain,
    *,
    earlier: Iterable[Mapping[str, Any]],
) -> None:
    steps, result = body
    written = {operation.doc for operation in moment.entry.operations}
    what = f"commit {moment.seq} ({entry['by']} {entry['tag']}, n={entry['n']})"
    model = Model(app, moment.before)
    sent: list[str] = []
    try:
        model.perform(steps, entry["n"], sent)
        answer = model.eval(result, entry["n"])
    except (ModelError, Refusal) as error:
        complain("INV-1", f"{what} is in the log; in the state before it, it raises {error}")
        return
    tags = [f"{entry['tag']}.{mark}" for mark in sent]
    if (answer, tags) != (entry["result"], entry["sent"]):
        complain("INV-1", f"{what} answers {entry['result']} and sends {entry['sent']}, expected {answer} and {tags}")
    wanted, found = model.visible(), Model(app, moment.after).visible()
    for name, value in wanted.items():
        if found[name] != value:
            if doc_key(f"{APP}.{name}") not in written and any(
                Model(app, each).visible()[name] == value for each in earlier
            ):
                # Writing an equal value changes nothing (guide, computed), and another thread has written since.
                continue
            complain("INV-1", f"{what} makes {name} {found[name]}, expected {value}")
