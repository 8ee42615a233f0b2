"""Every limit and default of the scheduler, with its reason."""

from __future__ import annotations

from typing import Final

RUNS_MAX: Final = 10
"""Runs of one node in one pass. A deep first run may unroll one level at a time; who runs more often than that, wakes
itself."""

BACKOFF_MS: Final = 250
"""How long a node rests that ran RUNS_MAX times in one pass and is still invalid."""

BACKOFF_MAX_MS: Final = 2000
"""Doubled at every further pass that ends so, and no more than this: a graph that settles late is still noticed."""

AUTO_DEBOUNCE_MEAN_MS: Final = 50
"""An effect that takes longer than this on average is slow to draw: it is not run for every keystroke."""

AUTO_DEBOUNCE_RUNS: Final = 3
"""Runs before its mean says anything: the first one loads and compiles."""

AUTO_DEBOUNCE_MS: Final = 100
"""What such an effect waits for quiet. Less is not felt, more is."""

NESTED_MAX: Final = 40
"""Functions that call each other for the first time, one within another. Each takes seven frames or so of Python's
stack, of which a thousand are usual, and authors want some, too."""

FAILURES_MAX: Final = 10
"""Times in a row that a run is repeated because the store failed, not because of a conflict."""

SPLIT_MAX: Final = 16
"""Places of one document of which an opening asks one by one which have changed: each answer replays its log."""

CAUSES_MAX: Final = 64
"""Places remembered of why a node is invalid. Of more, the documents: a dormant node must not grow with each write."""

UNREAD_MAX: Final = 1000
"""Unread instances of a function with parameters that are kept. Older ones are forgotten:
called again, they run again."""

LOWERED_MAX: Final = 8
"""Documents above a node that are looked at to see whether its rank can be lowered. With more, others are raised."""

TRACE_MAX: Final = 10_000
"""Records of each kind that a trace keeps."""

BACKLOG_MAX: Final = 10_000
"""Events of one stream that may wait. The next sender gets an error at once, before memory is full."""

RESUMED_MAX: Final = 3
"""Openings that may end without a word while an event of the outbox waits or is handled. One that ends the process each
time would keep a space from ever being used again."""

HANDLER_READS_MAX: Final = 64
"""Documents remembered of what a handler read last, to be made current before it is called again. What is beyond them
is made current when it is read."""

EVENTS_MAX: Final = 100
"""Events that are handled in one pass. An event loop gets its turn in between; `settle` goes on."""

QUIET_MAX_MS: Final = 10_000.0
"""How much longer than the quiet of a function an event waits for that function. All events behind it wait, too; and
where nothing has been quiet for so long, nothing will be soon."""

CHAIN_MAX: Final = 10_000
"""Events that are handled in a row for a plain program, which waits. A handler that sends to itself for ever sends on,
while the program goes on."""

RETRY_MS: Final = 0.78125
"""What an event waits whose handling was rolled back, the first time; doubled each time, so that it is a second after
ten."""

RETRY_MAX_MS: Final = 1000.0
"""The longest such wait."""

RETRY_WINDOW_MS: Final = 30_000.0
"""How long an event is tried. A handling that conflicts for so long would conflict for ever."""

FAILED_MAX: Final = 1000
"""Failed events that are kept. Enough to find out what is wrong; one stream that always fails must not fill a disk."""
