"""The parts of this host that a runtime is composed of."""

from __future__ import annotations

from collections.abc import Callable

from headwater.host.author_modules import new_fingerprints
from headwater.host.console_capture import console
from headwater.host.scheduler_log import log_steps
from headwater.host.space_resolver import SpaceResolver
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.host_parts import HostParts, ResourceParts, WorkflowParts
from headwater.runtime.inspection_port import InspectedSpace, InspectionPort
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options


def host_parts(inspection: Callable[[InspectedSpace, Lease, Options, AttachedReplica], InspectionPort]) -> HostParts:
    """Compose the parts. The inspection is above this package, so the caller chooses it."""
    return HostParts(
        console=console(),
        fingerprints=new_fingerprints,
        log_steps=log_steps,
        inspection=inspection,
        resources=resource_parts,
        workflows=workflow_parts,
        resolver=SpaceResolver,
    )


def resource_parts() -> ResourceParts:
    """Load what resources need."""
    from headwater.host.request_loop import RESOURCE_PARTS  # noqa: PLC0415  # plain programs need no asyncio

    return RESOURCE_PARTS


def workflow_parts() -> WorkflowParts:
    """Load what workflows need."""
    from headwater.host.workflow_host import WORKFLOW_PARTS  # noqa: PLC0415  # most programs have none

    return WORKFLOW_PARTS
