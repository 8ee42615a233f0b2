"""What the host provides to a runtime: everything that prints, logs, listens, or starts a thread or an event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headwater.cells.space_port import Resolver, SpacePort
from headwater.declare.functions.fingerprint import Fingerprints
from headwater.declare.resources.resource_instance import ResourceRequest
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.console_port import ConsolePort
from headwater.runtime.inspection_port import InspectedSpace, InspectionPort
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options, Where
from headwater.runtime.resources.request_port import RequestRunner, RequestThread
from headwater.scheduler.events.event import HandlerSpec
from headwater.scheduler.trace import Trace
from headwater.values.duration import Duration
from headwater.values.ids import Millis

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    # Most programs have neither resources nor workflows.
    from headwater.declare.workflows.workflow import Workflow
    from headwater.runtime.resources.fetcher import Fetcher
    from headwater.runtime.resources.fetching_port import FetchingPort
    from headwater.runtime.storage_port import LocalStorage
    from headwater.runtime.workflows.hub import Hosted, Hub
    from headwater.runtime.workflows.run_host import RunHost


class WorkflowHost(Protocol):
    """Executes the workflows of an open space."""

    @property
    def names(self) -> list[str]:
        """The workflows that this opening has deployed."""

    @property
    def hosted(self) -> dict[str, Hosted]:
        """The same, by name."""

    @property
    def wake_at(self) -> int | None:
        """When something is due, in milliseconds since 1970."""

    @property
    def is_running(self) -> bool:
        """Whether a host runs in the background."""

    @property
    def wakeups(self) -> int:
        """How often that host has looked for due work."""

    def drain(self, limit: int | None = None) -> int:
        """Execute everything that is due, in this thread. Returns the number of runs."""

    def start(self, concurrency: int = ...) -> None:
        """Execute runs in the background until the space is closed. Idempotent."""

    def stop(self, timeout: Duration = ...) -> bool:
        """Stop the host. Returns whether all runs came to where they can stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceParts:
    """The parts of a space with resources. Loaded for the first resource, because they need asyncio."""

    fetcher: Callable[[FetchingPort], Fetcher]
    runner: Callable[[SpacePort, Callable[[], AbstractEventLoop], Callable[[ResourceRequest], None]], RequestRunner]
    """Makes the runner of requests, from the event loop of a space and a callback for the end of each request."""
    thread: Callable[[], RequestThread]


class DeployFlow(Protocol):
    """Deploys a workflow of an app that is being opened. If it raises, nothing has changed."""

    def __call__(self, space: RunHost, flow: Workflow, *, force: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowParts:
    """The parts of an app with workflows. Loaded for the first workflow."""

    declare: type[Workflow]
    deploy: DeployFlow
    hub_of: Callable[[LocalStorage, Callable[[], Millis], str], Hub]
    host: Callable[[RunHost, Hub], WorkflowHost]
    publisher: Callable[[RunHost], HandlerSpec]
    """Makes the handler of events that other spaces send to topics of a space."""


class ClosableResolver(Resolver, Protocol):
    """A resolver that has spaces open."""

    def close(self) -> None:
        """Close them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """One record per process and kind of host."""

    console: ConsolePort
    fingerprints: Callable[[], Fingerprints]
    """Makes the fingerprints of one opening: which modules are the author's is a question of files."""
    log_steps: Callable[[str, Trace], None]
    """Log each record of a scheduler's trace, if the user asked for that."""
    inspection: Callable[[InspectedSpace, Lease, Options, AttachedReplica], InspectionPort]
    resources: Callable[[], ResourceParts]
    workflows: Callable[[], WorkflowParts]
    resolver: Callable[[Where, str | None], ClosableResolver]
    """Makes the resolver of an opening, from where it looks and the actor."""
