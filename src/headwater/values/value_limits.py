"""The limits of values, documents and commits, each with its reason."""

from __future__ import annotations

from typing import Final

DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Encoded size. A document is loaded, sent and stored as a whole; larger data belongs in several documents."""

DEPTH_MAX: Final = 512
"""Nesting of a document. Half of Python's default recursion limit, so that a recursive walk fits the stack."""

KEY_BYTES_MAX: Final = 4 * 1024
"""One key or document id in UTF-8: a page of the database. Keys are repeated in indexes and paths."""

COMMIT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Encoded size. One commit is one row, in memory of the writer and every reader; fits four full documents."""

INT_MIN: Final = -(2**63)
"""Integers are encoded with 64 bits, signed or unsigned, on disk and wire."""

INT_MAX: Final = 2**64 - 1
"""As above."""

CHUNKED_FROM: Final = 512
"""Containers with more entries are chunked: copying 512 entries costs about 2 us."""

CHUNKED_UNTIL: Final = 256
"""Containers with fewer entries are flat again; half, so that one key more or less does not flip it."""

CHUNK_MAX: Final = 256
"""Entries per chunk. Near the square root of 100,000: an update copies one chunk and one row of references."""

LINK_HOPS_MAX: Final = 64
"""Links followed in one resolution. Longer chains are an error in the data; cycles are detected earlier."""
