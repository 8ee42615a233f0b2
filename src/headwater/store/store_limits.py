"""The limits and defaults of the store, each with its reason."""

from __future__ import annotations

from typing import Final

FOLD_COMMITS: Final = 8192
"""Commits in the log's tail before it is folded. Replaying so many at open takes about 80 ms; folding so many at
once writes each touched page of the caches once instead of once per commit."""

FOLD_BYTES: Final = 8 * 1024 * 1024
"""The same in bytes: the tail's operations are also held in memory."""

SNAPSHOT_SLACK_BYTES: Final = 4096
"""Log bytes that may have to be read to rebuild a document, above its own size. A page: below it a snapshot would
cost more to write than it saves to read. Snapshots spaced like this never outweigh the log."""

VERDICTS_MAX: Final = 1024
"""Rejections remembered per session, for a client that asks again. Acceptances are remembered for ever, in the log."""

CACHE_BYTES: Final = 64 * 1024 * 1024
"""Documents the engine keeps ready, estimated in memory. Beyond it the least used are dropped and read again."""
