"""Every limit and default of workflows, with its reason."""

from __future__ import annotations

from typing import Final

BACKOFF_MS: Final = 10_000
"""Before the first retry: a short outage is over by then, and the service is not flooded."""

BACKOFF_MAX_MS: Final = 600_000
"""Between two retries at most: after a repair, the next retry comes within minutes."""

TRIES: Final = 5
"""Retries of transient failures. With the waits between them this is five minutes; then a person is asked."""

RETRY_AFTER_MAX_MS: Final = 86_400_000
"""How long a service can ask to wait, at most: a day."""

RECONCILE_TRIES: Final = 5
"""How often a connector is asked for the outcome of a call, before a person is."""

RECONCILE_MS: Final = 30_000
"""How long one such question may take."""

REPAIRS: Final = 2
"""Automatic repairs in a row. If two new versions have not fixed the error, a person has to."""

CRASHES: Final = 5
"""How often in a row the host may end during the same run, before the run is taken as the cause."""

WAKE_MIN_MS: Final = 30_000
"""The soonest wake-up time of a consumer: a mistake must not become a loop."""

WAKE_MAX_MS: Final = 86_400_000
"""The latest wake-up time: a handler that asks for more is woken once a day, and can ask again."""

PHASE_MS: Final = 300_000
"""How long one phase of a run may take, unless its handler sets another limit."""

PAGE: Final = 4
"""Pending events that are read when a run begins: many runs read only the first. More are read on demand."""

PEEK: Final = 100
"""Pending events that a consumer gets at once, unless it asks for more."""

PEEK_MAX: Final = 1000
"""The most that a consumer can ask for: all of them are in memory at once."""

KEEP_RUNS: Final = 100_000
"""Finished runs of a workflow that are kept: two months of a workflow that runs every minute."""

PRUNE_EVERY: Final = 512
"""Runs between two deletions of old ones: finding these means counting the runs that are kept."""

RECENT: Final = 5
"""Lines of recent activity in the status: as many as fit beside the name of a workflow."""

STALE_MS: Final = 7 * 86_400_000
"""An input that has waited for a week needs attention."""

CONFLICT_MS: Final = 30_000
"""How long `next` is retried after conflicts on the cells it read."""

STOP_MS: Final = 30_000
"""How long a host that has to end waits for its runs to reach a point where they can stop."""

CLOCK_MS: Final = 60_000
"""How long a waiting host goes without checking the clock, which may be set, or stop while a laptop sleeps."""

CONCURRENCY: Final = 16
"""Workflows that run at the same time in one host: most of the time they wait for outside services."""

ERROR_MAX: Final = 20_000
"""Characters of an error that are stored with a run: enough for a traceback."""

SERVICE_MAX: Final = 200
"""Characters of the name of a service that needs a sign-in."""

LANE_MAX: Final = 200
"""Characters of a lane's name that are shown and stored. Of a longer one, the digest."""

AT_ONCE_MAX: Final = 1000
"""Lanes of a consumer that can be at work at once: each is a thread of a host."""

PRIORITY: Final = 5
"""The priority of an event, unless it is published with another one."""

PRIORITY_MAX: Final = 9
"""The highest priority."""

EARLY_US: Final = 1_000_000
"""How far ahead of their calls runs of a consumer with a rate begin: an early run waits in its thread."""

LANES_SHOWN: Final = 20
"""Lanes that are shown of a workflow: those that wait for a person first."""
