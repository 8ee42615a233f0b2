"""The memo of transactions that have ended: nothing is added to it.

All of them share it. A dict of its own would be kept until the store has decided the transaction.
"""

from __future__ import annotations

from typing import Final


class _Ended(dict[object, object]):
    def __setitem__(self, key: object, value: object) -> None:
        pass


NOTHING_REMEMBERED: Final[dict[object, object]] = _Ended()
