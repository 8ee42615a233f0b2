"""Every limit and default of the scheduler, with its reason."""

from __future__ import annotations

from typing import Final

RUNS_MAX: Final = 10
"""Runs of one node in one pass.

A deep first run may unroll one level at a time. A node that runs more often than that invalidates itself.
"""

BACKOFF_MS: Final = 250
"""How long a node backs off that ran RUNS_MAX times in one pass and is still invalid."""

BACKOFF_MAX_MS: Final = 2000
"""The longest backoff, which doubles at every further pass: a graph that settles late is still noticed."""

AUTO_DEBOUNCE_MEAN_MS: Final = 50
"""An effect that takes longer than this on average is slow: it does not run for every keystroke."""

AUTO_DEBOUNCE_RUNS: Final = 3
"""Runs before the average counts: the first one loads and compiles."""

AUTO_DEBOUNCE_MS: Final = 100
"""The debounce of a slow effect. Less has no use; more is noticeable."""

NESTED_MAX: Final = 40
"""First calls of functions that may be nested.

Each takes about seven frames of Python's stack, whose usual limit is a thousand, and authors need some, too.
"""

FAILURES_MAX: Final = 10
"""How often in a row a run is repeated at once because the store failed, not because of a conflict."""

FAILURES_LONGEST: Final = FAILURES_MAX + 4
"""Failures in a row that are counted: then the time between two retries is BACKOFF_MAX_MS, and grows no more."""

SPLIT_MAX: Final = 16
"""Places of one document that an opening checks one by one for changes: each check replays the log of the document."""

CAUSES_MAX: Final = 64
"""Places stored as causes of an invalid node. Above it, only documents: a dormant node must not grow with writes."""

UNREAD_MAX: Final = 1000
"""Unread instances of a function with parameters that are kept.

Older ones are removed. If they are called again, they run again.
"""

LOWERED_MAX: Final = 8
"""Sources of a node that are checked before its rank is lowered. With more, the readers are raised instead."""

TRACE_MAX: Final = 10_000
"""Records of each kind that a trace stores."""

BACKLOG_MAX: Final = 10_000
"""Events of one stream that may wait. The next sender gets an error at once, before memory is full."""

RESUMED_MAX: Final = 3
"""Openings that may crash while an event of the outbox waits or is handled.

An event that ends the process each time would make the space unusable.
"""

HANDLER_READS_MAX: Final = 64
"""Recent reads of a handler that are remembered, and made current before its next call.

Other reads are made current when they happen.
"""

EVENTS_MAX: Final = 100
"""Events that are handled in one pass. An event loop gets its turn in between; `settle` continues."""

QUIET_MAX_MS: Final = 10_000.0
"""How much longer than its debounce an event waits for a function.

All events behind it wait, too. If there was no quiet for so long, there will be none soon.
"""

CHAIN_MAX: Final = 10_000
"""Events handled in a row for a plain program, which waits.

If a handler sends to itself for ever, the program still continues.
"""

RETRY_MS: Final = 0.78125
"""The first wait of an event whose handling was rolled back.

It doubles each time, and is a second after ten retries.
"""

RETRY_MAX_MS: Final = 1000.0
"""The longest such wait."""

RETRY_WINDOW_MS: Final = 30_000.0
"""How long an event is retried. A handling that conflicts for so long would conflict for ever."""

FAILED_MAX: Final = 1000
"""Failed events that are stored: enough to find the cause, without filling a disk."""
