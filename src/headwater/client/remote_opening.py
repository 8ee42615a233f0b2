"""From the URL of a server to a lease of one of its spaces."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from headwater.client.credentials import Credentials, KeySigner
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_url import parse_server
from headwater.errors import UsageError
from headwater.runtime.error_report import chosen
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.sync.actor_names import check_actor
from headwater.values.space_names import check_space_name

ENV_TOKEN: Final = "HEADWATER_TOKEN"  # noqa: S105  # its name, not the token
"""The environment variable for a token that is not given."""


def remote_lease(url: str, app: str, options: Options) -> Lease:
    """A lease of a server's space, not shared within the process. Connects when a replica is attached."""
    server = parse_server(url, options.space)
    check_space_name(server.space)
    if options.actor is not None:
        check_actor(options.actor)
    signer = None if options.key is None else _signer(Path(options.key))
    token = options.token
    if token is None and signer is None:
        token = os.environ.get(ENV_TOKEN) or None
    storage = RemoteStorage(
        server,
        Credentials(token=token, signer=signer, tls=options.tls),
        app=app,
        actor=options.actor or "",
        create=options.create,
        local=None if options.local is None else Path(options.local),
        on_error=chosen(options.on_error),
        inspect=options.inspect != "off",
    )
    lease = Lease(storage, None)
    lease.is_sole = True
    return lease


def _signer(path: Path) -> KeySigner:
    try:
        return KeySigner(path)
    except OSError as error:
        message = (
            f"key={str(path)!r} cannot be read: {error.strerror or error}; `headwater token keygen FILE` makes one"
        )
        raise UsageError(message, path=str(path)) from None
