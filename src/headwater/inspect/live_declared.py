"""Handlers with their parameters, and resources, of an open space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.declare.events.handler import Handler
from headwater.declare.resources.resource_captions import why_requested
from headwater.declare.resources.resource_instance import ResourceInstance
from headwater.errors import NotFoundError
from headwater.inspect.declared_records import (
    RESOURCES_MAX,
    HandlerReport,
    ListHandlers,
    ListResources,
    ParameterReport,
    RefetchResource,
    ResourceReport,
)
from headwater.inspect.document_records import MISSING
from headwater.inspect.live_functions import seen
from headwater.inspect.opening_port import OpeningPort, is_of
from headwater.scheduler.graph.node import titled
from headwater.values.address import address_text
from headwater.values.codec import to_json
from headwater.values.tree import ABSENT, get


def answer(openings: Sequence[OpeningPort], question: ListHandlers | ListResources, wait_s: float) -> object:
    """Handlers or resources of all openings."""
    found: list[HandlerReport | ResourceReport] = []
    for opening in openings:
        with opening.locked(wait_s):
            if isinstance(question, ListHandlers):
                found += seen(lambda opening=opening: list(_handlers(opening))) or ()  # type: ignore[misc]
            else:
                found += seen(lambda opening=opening: list(_resources(opening))) or ()  # type: ignore[misc]
    return tuple(found[:RESOURCES_MAX])


def _handlers(opening: OpeningPort) -> Iterator[HandlerReport]:
    for function, record in list(opening.space.events.handlers.items()):
        parameters: tuple[ParameterReport, ...] = ()
        if isinstance(function, Handler):
            parameters = tuple(
                ParameterReport(name=name, type=expected, default=MISSING if default is ABSENT else to_json(default))
                for name, expected, default in function.payload.listed()
            )
        yield HandlerReport(handler=titled(record.name, record.spec.piece), app=opening.app, parameters=parameters)


def _sources(opening: OpeningPort) -> Iterator[ResourceInstance]:
    for node in list(opening.space.scheduler.registry.nodes):
        if is_of(opening, node) and (source := opening.space.source_of(node)) is not None:
            yield source


def _resources(opening: OpeningPort) -> Iterator[ResourceReport]:
    for source in _sources(opening):
        yield _report(opening, source)


def _report(opening: OpeningPort, source: ResourceInstance) -> ResourceReport:
    record = opening.space.replica.read(source.doc)
    at, state, error = get(record, ("at",)), get(record, ("state",)), get(record, ("error", "text"))
    value = get(record, ("value",))
    return ResourceReport(
        node=source.node.id,
        label=source.label,
        app=opening.app,
        document=address_text(source.doc),
        state=state if isinstance(state, str) else "pending",
        observed=source.node.is_live,
        requesting=source.request is not None,
        requests=source.requests,
        failures=source.failures,
        why=opening.space.captioned(why_requested(opening.space, source)),
        error=error if isinstance(error, str) and state == "failed" else "",
        at_ms=int(at) if isinstance(at, int | float) else 0,
        value=MISSING if value is ABSENT else to_json(value),
    )


def refetch(openings: Sequence[OpeningPort], command: RefetchResource, wait_s: float) -> ResourceReport:
    """Request a resource now. Raises NotFoundError."""
    for opening in openings:
        with opening.locked(wait_s):
            for source in _sources(opening):
                if source.node.id == command.node:
                    opening.space.fetcher.refresh(source)
                    return _report(opening, source)
    raise NotFoundError(f"there is no resource {command.node!r} here (any more)", node=command.node)
