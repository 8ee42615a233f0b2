"""Bounds of the Studio, each with its reason."""

from __future__ import annotations

from typing import Final

PAGE: Final = 200
"""Rows of one page: what a browser draws within one frame."""

PAGE_MAX: Final = 1000
"""Rows that a page may ask for at once."""

VALUE_BYTES: Final = 64 * 1024
"""Bytes of one value before it is cut: a tab must stay quick when a document is large."""

VALUE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one value that is loaded whole."""

BOXES: Final = 800
"""Boxes of a graph: more are folded, since so many cannot be read."""

ROUTES: Final = 4000
"""Routes of a graph: beyond it boxes are folded."""

NODES: Final = 20_000
"""Nodes that are counted: reading more would stop a program for longer than half a second."""

SHARED_FROM: Final = 5
"""Members from which instances of one function share a box."""

WATCHES: Final = 32
"""Watched questions of one tab: a screen has at most six."""

ASKED: Final = 64
"""Questions and deeds of one tab that wait for their answer: a page asks a few at once."""

ANSWERS: Final = 4
"""Answers of one tab that are made and sent at the same time: each may have some 16 MiB, and a page may be slow."""

FEEDS: Final = 8
"""Spaces and branches that one tab looks into at the same time, beside those that it watches: each has a thread."""

TABS: Final = 64
"""Tabs of one server that have entered: each may hold one pending delta."""

GRANT_TABS: Final = 16
"""Tabs with the same token: no token takes all room."""

HALF_OPEN: Final = 32
"""Sockets that have not said who they are: a page does so at once."""

HALF_OPEN_PEER: Final = 16
"""The same of one address: people behind a proxy have the same."""

FRAME_BYTES: Final = 1024 * 1024
"""Bytes of one frame from a page: a value that a person typed."""

DELTA_MS: Final = 33
"""Milliseconds between two deltas of one question: a screen draws 30 pictures in a second without effort."""

HELLO_S: Final = 5.0
"""Seconds in which a connection must say who it is."""

LINK_S: Final = 60.0
"""Seconds in which the printed link works, once."""

SESSION_S: Final = 12 * 3600.0
"""Seconds of a session: one working day."""

QUERY_MS: Final = 200
"""Milliseconds of the engine for one query: meanwhile nothing is committed."""

QUERY_ROWS: Final = 100_000
"""Documents that one query reads."""

DIFFERENCES: Final = 500
"""Lines of a difference."""
