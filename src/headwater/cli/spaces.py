"""Opening the space of a command."""

from headwater.inspect.lookup import (
    FoundValue as Place,
)
from headwater.inspect.lookup import (
    find_branch,
    is_folder,
    key_prefixes,
    missing_document,
    missing_value,
    open_space,
)
from headwater.inspect.lookup import (
    find_value as find_place,
)
from headwater.inspect.names import did_you_mean

__all__ = [
    "Place",
    "did_you_mean",
    "find_branch",
    "find_place",
    "is_folder",
    "key_prefixes",
    "missing_document",
    "missing_value",
    "open_space",
]
