"""The record of a document that a step of the visible state has changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.values.patch import Touch
from headwater.values.tree import Maybe


class MovedDocument(msgspec.Struct, gc=False):
    """The change of one document in a step; `touches` None: it may differ anywhere."""

    before: Maybe
    after: Maybe
    touches: Sequence[Touch] | None
