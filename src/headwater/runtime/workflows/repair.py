"""Repairs: a faulty handler gets new code from the author's fixer.

New code is the source text of the class or function that failed. It is compiled with the names of its module, stored
with a version of the workflow, and used until the program itself changes. It has the same rights as the program: an
author who declares a fixer trusts it.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from hashlib import blake2b
from inspect import getsource, isawaitable, isclass
from textwrap import dedent
from types import FunctionType
from typing import Any, Final

import msgspec

from headwater.declare.workflows.broken import Broken
from headwater.declare.workflows.consumer import Consumer, ConsumerTypes, check_methods
from headwater.declare.workflows.failure_classes import failure_text
from headwater.declare.workflows.handler_specs import ConsumerDeclaration, Producer
from headwater.declare.workflows.workflow import Workflow
from headwater.errors import LogicError, TransitionError
from headwater.machine import machine
from headwater.runtime.error_report import log
from headwater.runtime.workflows.hub import Hosted, Hub
from headwater.runtime.workflows.timed_call import ElapsedError, TimedCall
from headwater.values.author_text import traceback_text
from headwater.workflow import repairs
from headwater.workflow.rows import RunCause
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import Repair

FIXER_S: Final = 600.0
"""How long a repair by an async function may take."""


def source_of(handler: ConsumerDeclaration | Producer) -> str:
    """The source text of a handler; empty if there is none."""
    kept = handler.source
    if kept is not None:
        return kept
    thing = handler.kind if isinstance(handler, ConsumerDeclaration) else handler.fn
    try:
        return dedent(getsource(thing))
    except (OSError, TypeError):
        return ""


# --- asking ---------------------------------------------------------------------------------------------------


class Repairing(TimedCall):
    """A fixer that is running."""

    def __init__(self, hub: Hub, hosted: Hosted, found: Repair) -> None:
        super().__init__(found.run.id, hosted.spec.name)
        self._hub, self._found = hub, found

    def give_up(self) -> None:
        """Ask a person, unless a person has resumed the workflow without the repair."""
        run = self._found.run
        text = f"{run.handler} is wrong: {run.error}. The repair failed: the fixer took longer than {FIXER_S:g} s"
        with self.turn:
            if not self.is_late(machine().monotonic()):
                raise TransitionError(f"the fixer of {self.workflow} has come back in the last moment")
            _settle(self._hub, self.workflow, lambda tables: repairs.gave_up(tables, run.id, text))
            self.is_given_up = True


def repair(
    hub: Hub,
    hosted: Hosted,
    found: Repair,
    awaiting: Callable[..., Any],
    watch: Callable[[TimedCall], None] = lambda _: None,
) -> None:
    """Call the fixer. Its answer becomes a new version; without one, a person is asked."""
    run, name = found.run, hosted.spec.name
    # The program's own handler is repaired: repaired code has no enclosing names any more.
    own = own_handler(hosted.flow, run.kind, run.handler)
    broken = Broken(
        workflow=name,
        handler=run.handler,
        run=run.id,
        phase=str(run.phase),
        error=run.error or "",
        details=run.error_details or "",
        source=source_of(handler_of(hosted, run.kind, run.handler)),
        attempt=found.flow.repairs + 1,
    )
    text = f"{run.handler} is wrong: {run.error}"
    repairing = Repairing(hub, hosted, found)
    watch(repairing)
    repairing.may_take(FIXER_S)
    try:
        try:
            source = _asked(hosted.flow, broken, awaiting)
        finally:
            repairing.comes_back()
        if repairing.is_given_up:
            return
        patched = None if source is None else patch(own, source, hosted.flow)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and machine().is_main_thread():
            # The program ends: the repair is still open.
            raise
        if repairing.is_given_up:
            return
        # A fixer that raises has not repaired anything.
        log.warning("workflow %s: %s", name, traceback_text(error))
        told = f"{text}. The repair failed: {failure_text(error)}"
        _settle(hub, name, lambda tables: repairs.gave_up(tables, run.id, told))
        return
    if source is None or patched is None:
        told = f"{text}. The fixer gave up"
        _settle(hub, name, lambda tables: repairs.gave_up(tables, run.id, told))
    elif _settle(hub, name, lambda tables: repairs.repaired(tables, run.id, run.handler, source)):
        hosted.patched[run.handler] = patched
        hosted.flags.resumed = RunCause.FIXED


def _asked(flow: Workflow, broken: Broken, awaiting: Callable[..., Any]) -> str | None:
    """The answer of the fixer. Raises its error, and LogicError for an answer that is neither text nor None."""
    assert flow.fixed_by is not None
    source: object = flow.fixed_by(broken)
    if isawaitable(source):
        try:
            source = awaiting(_awaited(source), FIXER_S)
        except ElapsedError:
            raise LogicError(f"the fixer took longer than {FIXER_S:g} s") from None
    if source is not None and not isinstance(source, str):
        raise LogicError(f"the fixer returned {source!r}; source text is expected, or None to give up")
    return source


async def _awaited(awaitable: Any) -> Any:  # noqa: ANN401  # what the fixer returns
    return await awaitable


def _settle(hub: Hub, name: str, part: Callable[[WorkflowTables], object]) -> bool:
    """Store the result of a repair, unless another version was deployed or the workflow resumed meanwhile."""
    try:
        hub.do(part)
    except TransitionError as error:
        log.info("workflow %s: %s", name, error.message)
        return False
    return True


def own_handler(flow: Workflow, kind: str, name: str) -> ConsumerDeclaration | Producer:
    """The handler as the program declares it."""
    return flow.consumers[name] if kind == "consumer" else flow.producers[name]


def handler_of(hosted: Hosted, kind: str, name: str) -> ConsumerDeclaration | Producer:
    """The handler that runs now, repaired or not."""
    patched: ConsumerDeclaration | Producer | None = hosted.patched.get(name)
    return own_handler(hosted.flow, kind, name) if patched is None else patched


# --- new code -------------------------------------------------------------------------------------------------


def patch(handler: ConsumerDeclaration | Producer, source: str, flow: Workflow) -> ConsumerDeclaration | Producer:
    """A handler with new code. Raises LogicError, SyntaxError, or an error of the code itself."""
    thing = handler.kind if isinstance(handler, ConsumerDeclaration) else handler.fn
    name = getattr(thing, "__name__", handler.name)
    text = dedent(source)
    tree = ast.parse(text)
    is_defined = False
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            # The declaration does not change: topics, schedules and rules are those of the program.
            node.decorator_list = []
            is_defined = True
    file = f"<repair of {handler.name}, {blake2b(text.encode(errors='replace'), digest_size=4).hexdigest()}>"
    # For tracebacks: the next repair sees the lines.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = _names_around(thing)
    # With the `__future__` flags of the handler's module, not of this one.
    flags = annotations.compiler_flag if names.get("annotations") is annotations else 0
    with _nothing_declared(flow, handler.name):
        # It has the same rights as the program: see above.
        exec(compile(tree, file, "exec", flags, dont_inherit=True), names)  # noqa: S102  # whom the author trusts
    made = names.get(name) if is_defined else None
    if isinstance(handler, ConsumerDeclaration):
        if not (isclass(made) and issubclass(made, Consumer)):
            raise LogicError(f"the repair of {handler.name} defines no class {name} of hw.Consumer")
        where = f"consumer {handler.name}"
        check_methods(made, where)
        mended = copy(handler)
        mended.use_class(made, ConsumerTypes(flow.owner, made, where))
        mended.source = source
        return mended
    if not isinstance(made, FunctionType):
        raise LogicError(f"the repair of {handler.name} defines no function {name}")
    other = Producer(flow.owner, made, handler.name, handler.schedule, handler.retry, handler.timeouts)
    other.uses, other.source = handler.uses, source
    return other


def _names_around(thing: Any) -> dict[str, Any]:  # noqa: ANN401  # a class or a function
    """The names that the code can use: those of its module, and of the functions around it."""
    module = sys.modules.get(getattr(thing, "__module__", ""))
    names: dict[str, Any] = {} if module is None else dict(vars(module))
    functions = vars(thing).values() if isclass(thing) else [thing]
    for function in functions:
        cells = getattr(function, "__closure__", None) or ()
        for name, cell in zip(getattr(getattr(function, "__code__", None), "co_freevars", ()), cells, strict=False):
            try:
                names[name] = cell.cell_contents
            except ValueError:
                # Not assigned yet: declared further down.
                continue
    return names


@contextmanager
def _nothing_declared(flow: Workflow, handler: str) -> Iterator[None]:
    """Check that new code declares nothing besides the handler. Otherwise undo that and raise LogicError."""
    declared: list[dict[str, Any]] = [flow.topics, flow.producers, flow.consumers, flow.connectors]
    before = [dict(each) for each in declared]
    try:
        yield
        if any(now != then for now, then in zip(declared, before, strict=True)):
            raise LogicError(f"the repair of {handler} declares more than that: topics and handlers are the program's")
    finally:
        for now, then in zip(declared, before, strict=True):
            _restore(now, then)


def _restore(now: dict[str, Any], then: Mapping[str, Any]) -> None:
    if now != then:
        now.clear()
        now.update(then)


def restore_patches(hosted: Hosted, code: bytes | None) -> None:
    """Restore the repairs of an earlier host, unless the program has changed since."""
    found: dict[str, ConsumerDeclaration | Producer] = {}
    for name, source in msgspec.msgpack.decode(code or b"\x80", type=dict[str, str]).items():
        kind = "consumer" if name in hosted.flow.consumers else "producer"
        try:
            found[name] = patch(own_handler(hosted.flow, kind, name), source, hosted.flow)
        except Exception as error:  # noqa: BLE001  # whatever the code raises when it is defined
            # The program's own code runs instead: if it still fails, it is repaired again.
            log.warning("workflow %s: the repair of %s cannot be used: %s", hosted.spec.name, name, failure_text(error))
    # Shared with other openings, which may have an older version of the program.
    hosted.patched.update(found)
    for name in hosted.patched.keys() - found.keys():
        del hosted.patched[name]
