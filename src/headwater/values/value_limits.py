"""The limits of values, documents and commits, each with its reason."""

from __future__ import annotations

from typing import Final

DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Encoded. A document is loaded, sent and snapshotted whole; larger data belongs in several documents."""

DEPTH_MAX: Final = 512
"""Nesting of a document. Half of Python's default recursion limit: a walk over it fits a normal stack."""

KEY_BYTES_MAX: Final = 4 * 1024
"""One key or document id in UTF-8. A page of the database; keys are repeated in indexes and paths."""

COMMIT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Encoded. One commit is one row, held by writer, log and every reader; room for four full documents."""

INT_MIN: Final = -(2**63)
"""Integers travel as 64 bit, signed or unsigned, on disk and wire."""

INT_MAX: Final = 2**64 - 1
"""As above."""

CHUNKED_FROM: Final = 512
"""Entries above which a container is kept in shared chunks: copying 512 entries still costs about 2 us."""

CHUNKED_UNTIL: Final = 256
"""Entries below which it is kept in one piece again; half, so that one key more or less does not flip it."""

CHUNK_MAX: Final = 256
"""Entries per chunk. Near the square root of 100,000: an update copies one chunk and one row of references."""

LINK_HOPS_MAX: Final = 64
"""Links followed in one resolution. Longer chains are a mistake in the data; cycles are found earlier."""
