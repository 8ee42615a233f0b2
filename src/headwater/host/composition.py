"""The parts of this host that a runtime is composed of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.cells.space_port import SpacePort
from headwater.declare.resources.resource_instance import ResourceRequest
from headwater.host.author_modules import new_fingerprints
from headwater.host.console_capture import console
from headwater.host.scheduler_log import log_steps
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.host_parts import HostParts, RequestRunner, WorkflowHost
from headwater.runtime.inspection_port import InspectionPort
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.space_runtime import SpaceRuntime

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headwater.runtime.workflows.hub import Hub


def host_parts(inspection: Callable[[SpaceRuntime, Lease, Options, AttachedReplica], InspectionPort]) -> HostParts:
    """Compose the parts. The inspection is above this package, so the caller chooses it."""
    return HostParts(
        console=console(),
        fingerprints=new_fingerprints,
        log_steps=log_steps,
        inspection=inspection,
        workflows=_workflows,
        requests=_requests,
    )


def _workflows(space: SpaceRuntime, hub: Hub) -> WorkflowHost:
    from headwater.host.workflow_host import Workflows  # noqa: PLC0415  # most programs have none

    return Workflows(space, hub)


def _requests(
    home: SpacePort, loop: Callable[[], AbstractEventLoop], finished: Callable[[ResourceRequest], None]
) -> RequestRunner:
    from headwater.host.request_loop import LoopRequests  # noqa: PLC0415  # plain programs need no asyncio

    return LoopRequests(home, loop, finished)
