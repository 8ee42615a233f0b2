"""Posts to topics of served spaces, answered when on disk.

`POST /spaces/{space}/topics/{workflow}/{topic}`. No app is open here: payloads are checked when they are consumed. The
topic must have been deployed by a program that had the space open.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import msgspec

from headwater.access.rights import Right
from headwater.declare.workflows.topic import check_id
from headwater.errors import ClosedError, NotFoundError
from headwater.host.system_clock import SystemClock
from headwater.runtime.workflows.hub import Hub, hub_of
from headwater.server.authenticator import Authenticator
from headwater.server.pages.page_access import check_right, grant_of
from headwater.server.spaces.channel import Channel
from headwater.server.topic_intake import Inflow, Intake, PostedEvent, taken
from headwater.values.codec import encode, from_json
from headwater.values.tree import freeze
from headwater.workflow.publication import Publication
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_spec import FlowSpec

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

TRIES: Final = 3
"""Attempts: an unused space may be closed just after it was found."""

SOURCE: Final = "http"


class Topics:
    """The page of one server."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._intake = Intake()
        self._inflows: WeakKeyDictionary[Channel, Inflow] = WeakKeyDictionary()

    async def post(self, request: Request) -> Response:
        """Handle one post."""
        grant = grant_of(request, self._authenticator)
        space: str = request.path_params["space"]
        check_right(self._authenticator, grant, space, Right.WRITE)
        posted = await self._intake.read(request)
        # Checked again: receiving the payload takes time.
        check_right(self._authenticator, grant, space, Right.WRITE)
        is_new = await self._put(space, request.path_params["workflow"], request.path_params["topic"], posted)
        return taken(posted, is_new=is_new)

    async def _put(self, space: str, workflow: str, topic: str, posted: PostedEvent) -> bool:
        for turn in range(TRIES):
            channel = await self._authenticator.spaces.channel(space, create=False)
            inflow = self._inflows.get(channel)
            hub = hub_of(channel.storage, SystemClock().now_ms)
            if inflow is None:
                inflow = self._inflows[channel] = Inflow(hub)
            try:
                return await inflow.put(partial(_publication, hub, workflow, topic, posted))
            except ClosedError:
                if turn == TRIES - 1:
                    raise
        raise AssertionError


def _publication(hub: Hub, workflow: str, topic: str, posted: PostedEvent) -> Publication:
    """The stored topic. Raises NotFoundError if it was not deployed."""
    name = hub.look(lambda tables: _find(tables, workflow, topic))
    address = f"{name}.{topic}"
    message = check_id(address, posted.key)
    value = freeze(from_json(posted.value), f"what is published to {address}")
    return Publication(name, topic, message, encode(value), posted.title, SOURCE, is_pinned=True)


def _find(tables: WorkflowTables, workflow: str, topic: str) -> str:
    """The full name of a workflow, given with or without the name of its app."""
    names = [str(row[0]) for row in tables.execute("select name from flow")]
    short = [full for full in names if full.rpartition(".")[2] == workflow]
    full = workflow if workflow in names else short[0] if len(short) == 1 else None
    if full is None:
        message = f"there is no workflow {workflow!r} in this space{_meant(workflow, names)}"
        raise NotFoundError(f"{message}; a program that declares it has to have opened the space once")
    flow = tables.flow_named(full)
    assert flow is not None
    query = "select config from flow_version where flow = ? and version = ?"
    # Topics of the newest version: an event in another topic would wait for ever.
    spec = msgspec.msgpack.decode(tables.execute(query, flow.id, flow.version)[0][0], type=FlowSpec)
    if topic not in spec.topics:
        raise NotFoundError(f"workflow {full} has no topic {topic!r}{_meant(topic, list(spec.topics))}")
    return full


def _meant(word: str, names: list[str]) -> str:
    """Similar full names, best match first."""
    every = {each: full for full in names for each in (full.rpartition(".")[2], full)}
    close = list(dict.fromkeys(every[each] for each in get_close_matches(word, every, n=3, cutoff=0.7)))
    return f"; did you mean {' or '.join(close)}?" if close else ""
