"""The user that this process runs as."""

from __future__ import annotations

import os
from getpass import getuser


def process_user() -> str:
    """The name of the user; of a user without a name, the number."""
    try:
        return getuser()
    except (KeyError, OSError, ImportError):
        # A number without a name, as in many containers.
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "an unknown user"
