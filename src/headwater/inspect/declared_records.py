"""The records about what an app declares: handlers with their parameters, and resources."""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias

import msgspec

from headwater.inspect.document_records import MISSING
from headwater.inspect.request import Command, Question

RESOURCES_MAX: Final = 5000
"""Resources in one answer."""


class ParameterReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A parameter of a handler."""

    name: str
    type: str
    default: object = MISSING
    """As JSON; missing: it must be given."""


class HandlerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A handler that events can be sent to."""

    handler: str
    """The name that `headwater send` takes."""
    app: str
    parameters: tuple[ParameterReport, ...]


class ResourceReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A resource with its arguments."""

    node: str
    label: str
    app: str
    document: str
    state: str
    """pending, ready or failed."""
    observed: bool
    requesting: bool
    requests: int
    failures: int
    why: str
    """The sentences of `headwater why`."""
    error: str = ""
    at_ms: int = 0
    """When the last answer came; 0: never."""
    value: object = MISSING


class ListHandlers(Question[tuple[HandlerReport, ...]], frozen=True, kw_only=True, tag="handlers"):
    """The handlers of all openings."""


class ListResources(Question[tuple[ResourceReport, ...]], frozen=True, kw_only=True, tag="resources"):
    """The resources of all openings."""


DeclaredQuestion: TypeAlias = ListHandlers | ListResources


class RefetchResource(Command[ResourceReport], frozen=True, kw_only=True, tag="refetch"):
    """Request a resource now, also if its answer is fresh."""

    again: ClassVar[str] = "Done twice, it is requested twice"

    node: str
