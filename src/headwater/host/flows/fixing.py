"""Repairs: a handler that is wrong gets new code from whoever the author has put in charge of that.

New code is source text for the one class or function that failed. It is compiled among the names of its module, kept
with a version of the workflow, and used until the program itself changes. It may do whatever the program may: whoever
declares a fixer trusts it.

Must never know: who the fixer is.
"""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Callable
from copy import copy
from inspect import getsource, isawaitable, isclass
from textwrap import dedent
from typing import Any

import msgspec

from headwater.errors import LogicError, TransitionError
from headwater.host.flows.consumer import Consumer, Types
from headwater.host.flows.declared import Declared, Producer
from headwater.host.flows.flow import Workflow
from headwater.host.flows.hub import Hosted, Hub
from headwater.host.report import log
from headwater.workflow import repairs
from headwater.workflow.model import Why
from headwater.workflow.transitions import Repair

FIXER_S = 600.0
"""How long a repair may take."""


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """What a fixer is told: the run that failed, the code that did, and how."""

    workflow: str
    handler: str
    run: int
    phase: str
    error: str
    details: str
    """The traceback."""
    source: str
    """Of the class or function, as it is now."""
    attempt: int
    """1 for the first repair since something worked."""


def source_of(handler: Declared | Producer) -> str:
    """Its text, without what stands in front of it. Empty if there is none."""
    kept = getattr(handler, "source", None)
    if isinstance(kept, str):
        return kept
    thing = handler.kind if isinstance(handler, Declared) else handler.fn
    try:
        return dedent(getsource(thing))
    except (OSError, TypeError):
        return ""


def repair(hub: Hub, hosted: Hosted, found: Repair, awaiting: Callable[..., Any]) -> None:
    """Ask the fixer; what it says becomes a version, or a person is told."""
    flow: Workflow = hosted.flow
    run, name = found.run, hosted.spec.name
    handler = handler_of(hosted, run.kind, run.handler)
    broken = Broken(
        workflow=name,
        handler=run.handler,
        run=run.id,
        phase=str(run.phase),
        error=run.error or "",
        details=run.error_details or "",
        source=source_of(handler),
        attempt=found.flow.repairs + 1,
    )
    text = f"{run.handler} is wrong: {run.error}"
    try:
        assert flow.fixed_by is not None
        source = flow.fixed_by(broken)
        if isawaitable(source):
            source = awaiting(_awaited(source), FIXER_S)
        if source is None:
            hub.do(lambda book: repairs.gave_up(book, found.flow.id, run.id, f"{text}. The fixer gave up"))
            return
        patched = patch(handler, str(source), flow)
    except Exception as error:  # noqa: BLE001  # a fixer that fails has not repaired anything
        told = f"{text}. The repair failed: {type(error).__name__}: {error}"
        log.warning("workflow %s: %s", name, "".join(traceback.format_exception(error)))
        hub.do(lambda book: repairs.gave_up(book, found.flow.id, run.id, told))
        return
    try:
        hub.do(lambda book: repairs.repaired(book, found.flow.id, run.id, run.handler, str(source)))
    except TransitionError as error:
        # Somebody has deployed another version meanwhile, or resumed: theirs counts.
        log.info("workflow %s: %s", name, error.message)
        return
    hosted.patched[run.handler] = patched
    hosted.flags.resumed = Why.FIXED


async def _awaited(awaitable: Any) -> Any:  # noqa: ANN401  # what the fixer returns
    return await awaitable


def handler_of(hosted: Hosted, kind: str, name: str) -> Declared | Producer:
    """The one that runs now."""
    found: Declared | Producer = hosted.flow.consumers[name] if kind == "consumer" else hosted.flow.producers[name]
    patched: Declared | Producer | None = hosted.patched.get(name)
    return found if patched is None else patched


def patch(handler: Declared | Producer, source: str, flow: Workflow) -> Declared | Producer:
    """A handler with other code. Raises LogicError, SyntaxError, or whatever the code raises when it is defined."""
    thing = handler.kind if isinstance(handler, Declared) else handler.fn
    name = getattr(thing, "__name__", handler.name)
    tree = ast.parse(dedent(source))
    defined = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in defined:
        # How it is declared does not change: topics, schedules and rules are the program's.
        node.decorator_list = []
    module = sys.modules.get(getattr(thing, "__module__", ""))
    names: dict[str, Any] = dict(vars(module)) if module is not None else {}
    exec(compile(tree, f"<repair of {handler.name}>", "exec"), names)  # noqa: S102  # see above: whom the author trusts
    made = names.get(name) if any(node.name == name for node in defined) else None
    patched = copy(handler)
    patched.source = source
    if isinstance(patched, Declared):
        if not (isclass(made) and issubclass(made, Consumer)):
            raise LogicError(f"the repair of {handler.name} defines no class {name} of hw.Consumer")
        patched.use(made, Types(flow._owner, made, f"consumer {handler.name}"))  # noqa: SLF001  # the same owner
        return patched
    if not callable(made):
        raise LogicError(f"the repair of {handler.name} defines no function {name}")
    patched.fn = made
    return patched


def restore_patches(hosted: Hosted, code: bytes | None) -> None:
    """What an earlier host was given, and the program has not changed since."""
    if code is None:
        return
    for name, source in msgspec.msgpack.decode(code, type=dict[str, str]).items():
        kind = "consumer" if name in hosted.flow.consumers else "producer"
        hosted.patched[name] = patch(handler_of(hosted, kind, name), source, hosted.flow)
