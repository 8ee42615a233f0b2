"""What is asked about the workflows of a file, and done with them because somebody asked: at a door, or without one.

Neither needs a turn of the space: transitions wait for the disk only, also while a function of the author's is at work.

Must never know: sockets, and who asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

import msgspec

from headwater.declare.workflows.controls import Controls
from headwater.declare.workflows.handler_specs import ConsumerDeclaration
from headwater.declare.workflows.plan import Applied, NotApplied, Skipped, Unknown
from headwater.errors import AddressError, NotFoundError, TransitionError, UsageError
from headwater.inspect.publish_command import HandedIn, hand_in
from headwater.inspect.records import Ask
from headwater.runtime.workflows.hub import Hub
from headwater.values.codec import from_json
from headwater.values.ids import Millis
from headwater.values.tree import Value, freeze
from headwater.workflow import run_queries
from headwater.workflow.host_state import Hosts
from headwater.workflow.input_queries import next_in_words
from headwater.workflow.operator_actions import find_flow, find_input
from headwater.workflow.wording.views import FlowView, InputView, RunDetails, RunView

PAGE_MAX: Final = 200
"""Runs or inputs in one answer: the file is held for some milliseconds, and who wants more asks again."""

WATCHED_MAX: Final = 500
"""Runs besides those that came since."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What all answers have."""

    at: Millis
    """How late it is there."""
    hosted: tuple[str, ...] = ()
    """Workflows whose runs are executed by somebody."""


class FlowsTold(Told, frozen=True, kw_only=True):
    """Of `workflows`."""

    flows: list[FlowView]


class RunsTold(Told, frozen=True, kw_only=True):
    """Of `runs`: newest first."""

    runs: list[RunView]


class RunTold(Told, frozen=True, kw_only=True):
    """Of `run`."""

    details: RunDetails


class InputsTold(Told, frozen=True, kw_only=True):
    """Of `inputs`: newest first."""

    inputs: list[InputView]


class FlowTold(Told, frozen=True, kw_only=True):
    """Of what was done: how it is now."""

    flow: FlowView
    then: str = ""
    """Of what was done to an input, or published: what runs next, in words."""

    @property
    def is_hosted(self) -> bool:
        """Somebody executes it."""
        return self.flow.name in self.hosted


class PublishTold(FlowTold, frozen=True, kw_only=True):
    """Of an event that was published."""

    event: HandedIn


class Done(FlowTold, frozen=True, kw_only=True):
    """Of anything else that was done."""

    run: RunView | None = None
    input: InputView | None = None
    count: int = 0
    """Events that it was about."""


def mark_of(hub: Hub) -> str:
    """Differs if anything has happened to workflows."""
    return f"{id(hub):x}:{hub.rides}.{len(hub.wakers)}"


def hosted_by(hub: Hub) -> tuple[str, ...]:
    """Those that somebody is at work for."""
    return tuple(hub.hosted) if hub.wakers else ()


def _hosts(hub: Hub, apps: tuple[str, ...] = ()) -> Hosts:
    """Who has the file open: nobody but this process can. `apps`: those that have it, also without workflows."""
    declared = tuple(hub.hosted)
    return Hosts(hosted_by(hub), (*apps, *(name.partition(".")[0] for name in declared)), declared)


# --- looking --------------------------------------------------------------------------------------------------


def answer(hub: Hub, ask: Ask, apps: tuple[str, ...] = ()) -> str:
    """What is known, as JSON; `apps` are those that have the file open. Raises NotFoundError."""
    # What a host that was killed has left in the middle is not told of as if it were at work.
    hub.recover()
    at, hosts = hub.now(), _hosts(hub, apps)
    hosted = hosts.running
    name = _full_name(hub, ask.workflow) if ask.workflow else None
    limit = max(min(ask.limit, PAGE_MAX), 0)
    found: Told
    match ask.ask:
        case "workflows" if name is not None:
            found = FlowsTold(at=at, hosted=hosted, flows=[_flow(hub, name, hosts)])
        case "workflows":
            views = hub.look(lambda book: run_queries.flows(book, archived=ask.every, hosts=hosts))
            found = FlowsTold(at=at, hosted=hosted, flows=views)
        case "runs":
            found = RunsTold(at=at, hosted=hosted, runs=_runs(hub, ask, name, limit))
        case "run":
            details = hub.look(lambda book: run_queries.run_details(book, ask.number, hosts))
            found = RunTold(at=at, hosted=hosted, details=details)
        case "inputs":
            inputs = hub.look(
                lambda book: run_queries.inputs(
                    book, name, limit=limit, before=ask.before or None, status=ask.status or None
                )
            )
            found = InputsTold(at=at, hosted=hosted, inputs=inputs)
        case _:
            raise UsageError(f"{ask.ask!r} is no question about workflows")
    return msgspec.json.encode(found).decode()


def _runs(hub: Hub, ask: Ask, name: str | None, limit: int) -> list[RunView]:
    return hub.look(
        lambda book: run_queries.runs(
            book,
            name,
            limit=limit,
            before=ask.before or None,
            after=ask.after,
            also=ask.also[:WATCHED_MAX],
            status=ask.status or None,
            acting=not ask.every,
            waiting=ask.waiting,
            hosts=_hosts(hub),
        )
    )


def _flow(hub: Hub, name: str, hosts: Hosts | None = None) -> FlowView:
    return hub.look(lambda book: run_queries.flow(book, name, hosts=hosts or _hosts(hub)))


def _full_name(hub: Hub, text: str) -> str:
    """The workflow that is meant; one that is close is suggested. Raises NotFoundError."""
    try:
        return hub.look(lambda book: find_flow(book, text)).name
    except NotFoundError as error:
        there = error.facts.get("known")
        known = [str(name) for name in there] if isinstance(there, tuple) else []
        # By the part after the dot: what stands before it is the same for most.
        last = text.rpartition(".")[2]
        close = get_close_matches(last, {name.rpartition(".")[2] for name in known}, n=3, cutoff=0.65)
        meant = [name for part in close for name in known if name.rpartition(".")[2] == part]
        if not meant:
            raise
        message = f"there is no workflow {text!r} here; did you mean {' or '.join(meant)}?"
        raise NotFoundError(message, workflow=text) from None


# --- doing ----------------------------------------------------------------------------------------------------


class _Named(Controls):
    """What people do to a workflow, without the app that declares it."""

    def __init__(self, hub: Hub, name: str = "") -> None:
        self._hub = hub
        self._name = name

    def _target(self) -> tuple[Hub, str]:
        return self._hub, self._name


def act(hub: Hub, ask: Ask) -> str:
    """Do it; how it is then, as JSON. On disk when this returns. Raises what refuses it: then nothing was done."""
    hub.recover()
    done = _act(hub, ask)
    return msgspec.json.encode(done).decode()


def _act(hub: Hub, ask: Ask) -> FlowTold:
    match ask.act:
        case "publish":
            return _publish(hub, ask)
        case "pause" | "resume" | "now" | "archive" | "restore" | "reprocess":
            return _act_on_flow(hub, ask)
        case "skip_input" | "retry_input":
            return _act_on_input(hub, ask)
        case None:
            raise UsageError("it is not said what is to be done")
        case _:
            return _act_on_run(hub, ask)


def _publish(hub: Hub, ask: Ask) -> PublishTold:
    name = _full_name(hub, ask.workflow)
    event = hand_in(hub, name, ask)
    then = hub.look(lambda book: next_in_words(book, find_flow(book, name), _hosts(hub)))
    return PublishTold(at=hub.now(), hosted=hosted_by(hub), flow=_flow(hub, name), event=event, then=then)


def _act_on_flow(hub: Hub, ask: Ask) -> Done:
    name = _full_name(hub, ask.workflow)
    controls = _Named(hub, name)
    acts: dict[str | None, Callable[[], int | None]] = {
        "pause": controls.pause,
        "resume": controls.resume,
        "now": controls.now,
        "archive": controls.archive,
        "restore": controls.restore,
        "reprocess": controls.reprocess,
    }
    count = acts[ask.act]()
    flow = _flow(hub, name)
    return Done(at=hub.now(), hosted=hosted_by(hub), flow=flow, count=count or 0)


def _act_on_run(hub: Hub, ask: Ask) -> Done:
    controls, number = _Named(hub), ask.number
    acts = {
        "approve": controls.approve,
        "reject": controls.reject,
        "retry": controls.retry,
        "cancel": controls.cancel,
        "abandon": controls.abandon,
    }
    answers: dict[str, Callable[[], Applied[Value] | NotApplied | Skipped | Unknown]] = {
        "applied": lambda: Applied(_result(hub, number, ask.value)),
        "not_applied": NotApplied,
        "skip": Skipped,
        "again": Unknown,
    }
    if ask.act in acts:
        acts[ask.act](number, by=ask.by, reason=ask.reason)
    elif ask.act in answers:
        controls.reconcile(number, answers[ask.act](), by=ask.by, reason=ask.reason)
    else:
        raise UsageError(f"{ask.act!r} is nothing that can be done to a run")
    run = hub.look(lambda book: run_queries.run_view(book, book.run(number), hosts=_hosts(hub)))
    return Done(at=hub.now(), hosted=hosted_by(hub), flow=_flow(hub, run.workflow), run=run)


def _act_on_input(hub: Hub, ask: Ask) -> Done:
    controls, number = _Named(hub), ask.number
    before = hub.look(lambda book: book.flow(find_input(book, number).flow))
    count = controls.skip(number) if ask.act == "skip_input" else controls.reprocess(number)
    found = hub.look(lambda book: run_queries.input_view(book, number))
    after, then = hub.look(lambda book: (book.flow(before.id), next_in_words(book, book.flow(before.id), _hosts(hub))))
    if before.block_kind == "ask" and after.block_kind is None:
        then = f"The plan of run {before.head} is dropped, and made anew without it. {then}"
    flow = _flow(hub, found.workflow)
    return Done(at=hub.now(), hosted=hosted_by(hub), flow=flow, input=found, count=count, then=then)


def _result(hub: Hub, run_id: int, text: str) -> Value:
    """What a person says that came of a call. Where its app is open, it has to be of the type that `next` expects."""
    from headwater.declare.workflows.handler_specs import operation_of  # noqa: PLC0415  # only where somebody says so
    from headwater.runtime.workflows.repair import handler_of  # noqa: PLC0415  # likewise

    try:
        given: object = json.loads(text)
    except ValueError as error:
        raise UsageError(f"what came of run {run_id} is not JSON: {error}", run=run_id) from None
    value = freeze(from_json(given), f"the result of run {run_id}")
    run, call = hub.look(lambda book: (book.run(run_id), book.call_of(book.run(run_id))))
    hosted = next((each for each in list(hub.hosted.values()) if each.flow_id == run.flow), None)
    if hosted is None or call is None or run.handler not in hosted.flow.consumers:
        # Said once, it stands: so it is not taken before somebody can tell whether `next` can read it.
        message = (
            f"what came of run {run_id} can be checked only where its app is open: start it (headwater run MODULE:APP)"
        )
        raise TransitionError(f"{message}, then say it again; --not-applied and --skip need no app", run=run_id)
    handler = handler_of(hosted, run.kind, run.handler)
    assert isinstance(handler, ConsumerDeclaration)
    operation = operation_of(handler, call.operation)
    sealed = handler.types.result if operation is None else operation.result
    try:
        return sealed.to_tree(sealed.from_tree(hosted.space, hosted.space.untracked, value))
    except AddressError as error:
        raise UsageError(error.message, run=run_id) from None
