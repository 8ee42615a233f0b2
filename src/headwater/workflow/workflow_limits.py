"""Every limit and default of workflows, with its reason."""

from __future__ import annotations

from typing import Final

BACKOFF_MS: Final = 10_000
"""Before the first retry: a short outage is over, and the service is not flooded."""

BACKOFF_MAX_MS: Final = 600_000
"""Between two retries at most: after a repair, the next try comes within minutes."""

TRIES: Final = 5
"""Retries of what should pass by itself. With the waits between them that is five minutes; then a person is told."""

RETRY_AFTER_MAX_MS: Final = 86_400_000
"""How long a service that asks to be left alone is, at most: a day, whatever it says."""

RECONCILE_TRIES: Final = 5
"""Times that a connector is asked what became of a call, before a person is."""

RECONCILE_MS: Final = 30_000
"""How long such a question may take."""

REPAIRS: Final = 2
"""Repairs by a program in a row. What two new versions have not mended, a person has to look at."""

CRASHES: Final = 5
"""Times in a row that the host may end in the middle of the same work, before it is taken for the reason."""

WAKE_MIN_MS: Final = 30_000
"""The soonest that a consumer can ask to be woken: a mistake in it must not become a loop."""

WAKE_MAX_MS: Final = 86_400_000
"""The latest: a handler that asks for more is woken once a day, and can ask again."""

PHASE_MS: Final = 300_000
"""How long one phase of a run may take, unless its handler says otherwise."""

PAGE: Final = 4
"""Pending events that are read when a run begins: many look at the first only. The rest when it is asked for."""

PEEK: Final = 100
"""Pending events that a consumer is shown at once, unless it asks for more."""

PEEK_MAX: Final = 1000
"""The most it can ask for: they are all in memory at the same time."""

KEEP_RUNS: Final = 100_000
"""Finished runs of a workflow that are kept: months of one that runs every minute."""

PRUNE_EVERY: Final = 512
"""Every so many runs the oldest finished ones are let go: finding them means counting those that are kept."""

RECENT: Final = 5
"""Lines of recent activity in the status: as many as fit beside a workflow's name."""

STALE_MS: Final = 7 * 86_400_000
"""An input that has waited for a week needs attention."""

CONFLICT_MS: Final = 30_000
"""How long `next` is called again because cells it read were written by others."""

STOP_MS: Final = 30_000
"""How long a host that is told to end waits for runs to come to a place where they can stop."""

CLOCK_MS: Final = 60_000
"""How long a waiting host goes without checking the clock: it may be set, or a laptop sleeps."""

CONCURRENCY: Final = 16
"""Workflows that run at the same time in one host: most of the time they wait for the outside."""

ERROR_MAX: Final = 20_000
"""Characters of an error that are kept with a run: a traceback, not a core dump."""

SERVICE_MAX: Final = 200
"""Characters of the name of a service that has to be signed in to."""
