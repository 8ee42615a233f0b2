"""The limits and defaults of the store, each with its reason."""

from __future__ import annotations

from typing import Final

FOLD_COMMITS: Final = 8192
"""Commits in the tail of the log before it is folded. Replaying so many at open takes about 80 ms; folding so many
at once writes each touched page of the caches once instead of once per commit."""

FOLD_BYTES: Final = 8 * 1024 * 1024
"""The same in bytes: the operations of the tail are also in memory."""

DECODED_MAX: Final = 8
"""Entries of the log that are kept decoded, with FOLD_BYTES in all: the commits that documents have in common."""

SNAPSHOT_SLACK_BYTES: Final = 4096
"""Log bytes above its own size that a rebuild of a document may read. A page: below it a snapshot would cost more to
write than it saves to read. With this spacing, snapshots are never larger than the log."""

VERDICTS_MAX: Final = 1024
"""Rejections stored per session, for a client that asks again. Acceptances are in the log."""

CACHE_BYTES: Final = 64 * 1024 * 1024
"""The estimated size of the document cache. Beyond it, the least used documents are dropped and read again."""

BODIES_AT_ONCE: Final = 1000
"""Documents that one lookup reads, when many are read: fewer cost more lookups, more hold up other readers."""

SHIFTS_KEPT: Final = 100_000
"""Commits to documents of collections whose keys before and after are kept, about 10 MB. For a read that is older,
nothing can be proven: a commit conflicts, and a function runs."""

SHIFTS_SLACK: Final = 8192
"""So many more are kept until they are deleted together."""
