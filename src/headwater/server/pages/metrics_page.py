"""The metrics page: totals; and values per space for clients that own all spaces."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from headwater._version import __version__
from headwater.access.rights import EVERY_SPACE, Right
from headwater.machine import machine
from headwater.server.authenticator import Authenticator
from headwater.server.metrics import CONTENT_TYPE, MetricsText, WorkCounts
from headwater.server.pages.page_access import grant_of, is_this_machine
from headwater.server.spaces.channel import Channel

if TYPE_CHECKING:
    from starlette.requests import Request

_REASONS: Final = {
    400: "malformed",
    401: "token",
    403: "origin",
    404: "path",
    421: "host",
    429: "rate",
    503: "unavailable",
}
"""Labels for refused upgrades, by status."""


class Metrics:
    """The metrics of one server. `proxied`: a proxy on this machine may forward foreign requests."""

    def __init__(self, authenticator: Authenticator, *, proxied: bool) -> None:
        self._authenticator = authenticator
        self._proxied = proxied

    async def metrics(self, request: Request) -> Response:
        """The page in the text format of Prometheus."""
        by_space = self._may_see_names(request)
        return Response(self.text(by_space=by_space), media_type=None, headers={"content-type": CONTENT_TYPE})

    def _may_see_names(self, request: Request) -> bool:
        """Whether names of spaces are included. Raises HTTPException without access."""
        is_open = is_this_machine(request) and not self._proxied
        if is_open and "authorization" not in request.headers:
            return False
        grant = grant_of(request, self._authenticator)
        right = self._authenticator.spaces.right(grant, grant.space)
        if right < Right.OWN and not is_open:
            raise HTTPException(403, "metrics need a token with the right to own a space")
        return right >= Right.OWN and grant.space == EVERY_SPACE

    # -- the numbers ---------------------------------------------------------------------------------------

    def text(self, *, by_space: bool) -> str:
        """All current values."""
        page = MetricsText()
        self._sockets(page)
        self._spaces(page, by_space=by_space)
        _process(page)
        return page.text()

    def _sockets(self, page: MetricsText) -> None:
        traffic = self._authenticator.traffic
        page.family("info", "gauge", "Which version this is.", [({"version": __version__}, 1)])
        page.family("connections", "gauge", "WebSockets that are open.", self._authenticator.connections)
        page.family("upgrades_total", "counter", "WebSockets that were opened.", traffic.upgrades)
        refused = dict.fromkeys(_REASONS, 0) | traffic.refused
        samples = [({"reason": _REASONS.get(status, str(status))}, float(count)) for status, count in refused.items()]
        page.family("refused_upgrades_total", "counter", "WebSockets that were refused, by reason.", samples)
        slow = "Clients that were closed because they read too slowly."
        page.family("slow_consumers_closed_total", "counter", slow, traffic.slow)
        ways = {"in": (traffic.frames_in, traffic.bytes_in), "out": (traffic.frames_out, traffic.bytes_out)}
        frames = [({"direction": way}, float(frames)) for way, (frames, _) in ways.items()]
        page.family("frames_total", "counter", "Frames from clients (in) and to them (out).", frames)
        sizes = [({"direction": way}, float(size)) for way, (_, size) in ways.items()]
        page.family("bytes_total", "counter", "Bytes on WebSockets from clients (in) and to them (out).", sizes)
        posts = [({"status": str(status)}, float(count)) for status, count in sorted(traffic.posts.items())]
        page.family("posts_total", "counter", "Events posted to topics, by the status of the answer.", posts)
        page.family("backups_total", "counter", "Backups that were sent to the end.", traffic.backups)

    def _spaces(self, page: MetricsText, *, by_space: bool) -> None:
        spaces = self._authenticator.spaces
        channels = dict(spaces.channels)
        work = WorkCounts().add(spaces.past.commits, spaces.past.delivered, spaces.past.groups, spaces.past.decided)
        for channel in channels.values():
            work.add(channel.commits, channel.delivered, channel.storage.groups, channel.decided)
        page.family("open_spaces", "gauge", "Spaces that are open.", len(channels))

        def gauge(name: str, words: str, count: Callable[[Channel], int]) -> None:
            page.family(name, "gauge", words, sum(map(count, channels.values())))
            if by_space:
                samples = [({"space": space}, float(count(channel))) for space, channel in sorted(channels.items())]
                page.family(f"space_{name}", "gauge", f"{words} By space.", samples)

        gauge("sessions", "Clients that have a space open.", lambda channel: len(channel.connections))
        gauge("watches", "Documents that clients watch, each as often as it is.", lambda channel: channel.watching)
        gauge("pending_commits", "Commits that wait for a verdict.", lambda channel: len(channel.since))
        gauge(
            "expired_documents", "Documents that expired while their space was open.", lambda channel: channel.expired
        )
        words = "Spaces whose documents do not expire, because the clock has jumped forward."
        gauge("expiry_stopped", words, lambda channel: channel.expiry is not None and channel.expiry.is_stopped)
        page.family("commits_total", "counter", "Commits that were accepted.", work.commits)
        page.family("deliveries_total", "counter", "Frames of news that were sent to clients.", work.delivered)
        page.family("groups_total", "counter", "Groups of commits that shared one fsync.", work.groups)
        if by_space:
            head = [({"space": space}, float(channel.head)) for space, channel in sorted(channels.items())]
            page.family("space_head", "gauge", "The newest place in the log of an open space.", head)
        words = "From the arrival of a commit to its verdict."
        page.histogram("decide_seconds", words, work.decided)


# --- the process ----------------------------------------------------------------------------------------------


def _process(page: MetricsText) -> None:
    page.family(
        "process_start_time_seconds", "gauge", "When it was started, as seconds since 1970.", machine().process.started
    )
    times = os.times()
    page.family("process_cpu_seconds_total", "counter", "Time that it has computed.", times.user + times.system)
    resident = _resident()
    if resident is not None:
        page.family("process_resident_memory_bytes", "gauge", "Memory that it holds.", resident)
    try:
        # One descriptor belongs to the listing itself.
        descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1
    except OSError:
        return
    page.family("process_open_fds", "gauge", "File descriptors that it has.", descriptors)


def _resident() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None  # not on this system
    return pages * os.sysconf("SC_PAGE_SIZE")
