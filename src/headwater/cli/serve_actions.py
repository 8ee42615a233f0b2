"""The server: serve."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Final

import click

from headwater.access.private_files import opened_up
from headwater.cli.output import is_terminal, note
from headwater.cli.target import listen_address
from headwater.host.space_files import files_of, spaces_in
from headwater.host.standard_streams import last
from headwater.machine import machine
from headwater.runtime.options import retention_of
from headwater.server.server import Server, Serving, end_on
from headwater.server.server_log import set_up
from headwater.store.backends.sqlite_file import save_memory
from headwater.store.retention import Retention
from headwater.studio.limits import LINK_S
from headwater.studio.served_host import ServedHost
from headwater.studio.served_pages import SOCKET, own_link, studio_pages
from headwater.values.text import listed_text

_SHOWN: Final = 3
"""Files that are named in one line."""

_DATABASES: Final = ("postgresql:", "postgres:")

SWITCH_S: Final = 0.0001
"""How long a thread that computes keeps the others waiting. A message passes through several threads, and waits at each
of them: with Python's default of 5 ms, one busy space delays all others by many times what their own work takes."""


def serve(
    *,
    store: Path,
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    no_create: bool,
    has_studio: bool,
    spaces_max: int,
    kept: tuple[str, ...],
    log: str,
    verbose: bool,
    quiet: bool,
) -> None:
    """Carry out `serve`."""
    last()
    host, port = listen_address("--listen", listen)
    _check(store, tls_cert, tls_key)
    if log != "off":
        set_up(logging.getLogger("headwater"), sys.stderr, json=log == "json", verbose=verbose)
    _allow_descriptors()
    save_memory()
    sys.setswitchinterval(SWITCH_S)
    hosts_of_pages: list[ServedHost] = []
    server = Server(
        Serving(
            more_pages=studio_pages(hosts_of_pages.append) if has_studio else None,
            page_sockets=(SOCKET,) if has_studio else (),
            store=store,
            host=host,
            port=port,
            certificate=tls_cert,
            key=tls_key,
            insecure=insecure,
            hosts=hosts,
            origins=origins,
            create=not no_create,
            spaces_max=spaces_max,
            kept=_retention(kept),
        )
    )

    def say(sentence: str, event: str) -> None:
        if log == "json":
            # A program that reads JSON gets nothing else.
            logging.getLogger("headwater.server").info(event, extra={"url": server.url, "store": str(store)})
        elif not quiet:
            note(sentence)

    def started() -> None:
        say(f"serving {store} at {server.url}; Ctrl-C ends it", "server started")
        for studio in hosts_of_pages:
            if log != "json" and not quiet:
                note(_studio_line(server, studio))
        _warn(store, log, quiet=quiet)

    async def run() -> None:
        end_on(asyncio.get_running_loop(), server, (signal.SIGINT, signal.SIGTERM))
        await server.serve(started)

    machine().run(run())
    say("the server has ended; everything that was acknowledged is on disk", "server ended")


def _check(store: Path, certificate: Path | None, key: Path | None) -> None:
    """Refuse what the options say together."""
    if str(store).startswith(_DATABASES):
        message = (
            "--store takes a folder: a server over a database is still to come; programs open it with app.open(URL)"
        )
        raise click.UsageError(message)
    if key is None and certificate is not None and not _holds_key(certificate):
        raise click.UsageError(f"--tls-cert {certificate}: the private key is not in it; give it with --tls-key.")


def _studio_line(server: Server, studio: ServedHost) -> str:
    """Where the Studio is. The link for the user of the server is shown on a terminal only: it is a right."""
    grant = server.access.local_grant
    if grant is None or not is_terminal(sys.stderr):
        return f"the Studio is at {server.url.replace('ws', 'http', 1)}/studio/"
    link = own_link(studio, grant, server.url)
    return f"the Studio: {link} (the link works once, for {LINK_S:.0f} s; later log in with a token)"


def _retention(given: tuple[str, ...]) -> Retention | None:
    """What `--retain` says."""
    pairs = [each.partition("=") for each in given]
    return retention_of({name: time for name, _, time in pairs}, "--retain") if given else None


def _warn(store: Path, log: str, *, quiet: bool) -> None:
    """Warn of files that other users of this machine can read without a token."""
    wide = opened_up([store, *(file for space in spaces_in(store) for file in files_of(space))])
    if not wide:
        return
    shown = listed_text(wide, _SHOWN)
    message = f"others on this machine can use {shown}, whatever tokens say; close them with: chmod -R go= {store}"
    if log != "off":
        logging.getLogger("headwater.server").warning(message)
    elif not quiet:
        note(message)


def _allow_descriptors() -> None:
    """Allow as many open files as the system allows this user: a space takes two, and a connection one."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if soft != hard:
        # What the system does not allow after all stays as it was.
        with suppress(ValueError, OSError):
            setrlimit(RLIMIT_NOFILE, (hard, hard))


def _holds_key(certificate: Path) -> bool:
    """Whether the private key is in the same file. A file that cannot be read is reported where it is used."""
    try:
        return b"PRIVATE KEY-----" in certificate.read_bytes()
    except OSError:
        return True
