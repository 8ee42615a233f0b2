"""Deploys the workflows of an app that is being opened."""

from __future__ import annotations

from headwater.declare.workflows.workflow import Workflow
from headwater.runtime.workflows.hub import Hosted
from headwater.runtime.workflows.repair import restore_patches
from headwater.runtime.workflows.run_host import RunHost
from headwater.workflow.deployment import deploy


def deploy_flow(space: RunHost, flow: Workflow, *, force: bool = False) -> None:
    """Deploy a workflow of an app that is being opened. If this raises, nothing has changed."""
    hub = space.flows
    spec = flow.spec
    fingerprint, salt = flow.fingerprint(), space.entropy.token()
    # First of all: runs that an earlier host has left unfinished.
    hub.recover()
    deployed = hub.do(lambda tables: deploy(tables, spec, fingerprint, salt, force=force))
    hosted = Hosted(flow, space, spec, deployed.flow.id, deployed.flags, has_lanes=bool(spec.laned))
    hub.add(hosted)
    space.on_close(lambda: hub.drop(space))
    restore_patches(hosted, deployed.code)
