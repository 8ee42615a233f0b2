"""The server: serve."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import Final

import click

from headwater.cli.output import note
from headwater.host.standard_streams import last
from headwater.machine import machine

_PORT_MAX: Final = 65535
_SHOWN: Final = 3
"""Files that are named in one line."""
_LISTEN: Final = "127.0.0.1:8400"


@click.command("serve")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Where the spaces are: a file for each. Made if it is not there.",
)
@click.option("--listen", default=_LISTEN, show_default=True, metavar="HOST:PORT", help="Port 0 is any that is free.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="A certificate (PEM), for wss://.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its private key (PEM).")
@click.option("--insecure", is_flag=True, help="Listen for other machines without a certificate, as behind a proxy.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A name that it is reached by besides.")
@click.option("--origin", "origins", multiple=True, metavar="URL", help="A place whose web pages may connect.")
@click.option("--no-create", is_flag=True, help="Serve only the spaces that are there.")
@click.option(
    "--log",
    type=click.Choice(["text", "json", "off"]),
    default="text",
    show_default=True,
    help="How what happens is told, on stderr: a line each, for people or for programs.",
)
@click.option("--verbose", is_flag=True, help="Tell also which pages are asked for.")
@click.option("--quiet", is_flag=True, help="Say no sentence at the start and at the end.")
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
    log: str,
    verbose: bool,
    quiet: bool,
) -> None:
    """Serve the spaces of a folder to programs elsewhere, until it is told to end.

    \b
    headwater serve --store spaces/
    headwater serve --store spaces/ --listen 0.0.0.0:8400 --tls-cert cert.pem --tls-key key.pem

    Programs open them with app.open("ws://HOST:PORT/SPACE"). Those of the same user on this machine are let in; others
    need a token of `headwater token create`.

    \b
    Pages: /healthz  it lives                  /metrics  numbers, for Prometheus
           /readyz   it takes something now    /spaces/SPACE/backup  a copy, for who owns it
    POST /spaces/SPACE/topics/WORKFLOW/TOPIC   an event (JSON, with an Idempotency-Key)

    Ctrl-C or SIGTERM ends it: no more is taken, what was sent is decided and told, and programs are told to come again.
    The second one ends it at once. What was acknowledged is on disk either way.
    """  # noqa: D301  # a real backspace: click's mark for lines that stay as they are
    import asyncio

    from headwater.server.server import Server, Serving, end_on
    from headwater.server.server_log import set_up

    last()
    host, port = _place(listen)
    if tls_key is None and tls_cert is not None and not _holds_key(tls_cert):
        raise click.UsageError(f"--tls-cert {tls_cert}: the private key is not in it; give it with --tls-key.")
    if log != "off":
        set_up(logging.getLogger("headwater"), sys.stderr, json=log == "json", verbose=verbose)
    server = Server(
        Serving(
            store=store,
            host=host,
            port=port,
            certificate=tls_cert,
            key=tls_key,
            insecure=insecure,
            hosts=hosts,
            origins=origins,
            create=not no_create,
        )
    )

    def say(sentence: str, event: str) -> None:
        if log == "json":
            # Whoever reads objects reads nothing else.
            logging.getLogger("headwater.server").info(event, extra={"url": server.url, "store": str(store)})
        elif not quiet:
            note(sentence)

    def started() -> None:
        say(f"serving {store} at {server.url}; Ctrl-C ends it", "server started")
        _complain(store, log, quiet=quiet)

    async def run() -> None:
        end_on(asyncio.get_running_loop(), server, (signal.SIGINT, signal.SIGTERM))
        await server.serve(started)

    machine().run(run())
    say("the server has ended; everything that was acknowledged is on disk", "server ended")


def _complain(store: Path, log: str, *, quiet: bool) -> None:
    """Of files that others on this machine can read past the server: rights of tokens do not hold there."""
    from headwater.access.private_files import opened_up
    from headwater.host.space_files import files_of, spaces_in

    wide = opened_up([store, *(file for space in spaces_in(store) for file in files_of(space))])
    if not wide:
        return
    shown = ", ".join(wide[:_SHOWN]) + (f" and {len(wide) - _SHOWN} more" if len(wide) > _SHOWN else "")
    message = f"others on this machine can use {shown}, whatever tokens say; close them with: chmod -R go= {store}"
    if log != "off":
        logging.getLogger("headwater.server").warning(message)
    elif not quiet:
        note(message)


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > _PORT_MAX:
        raise click.UsageError(f"--listen {text}: HOST:PORT is expected, such as {_LISTEN}")
    return host.strip("[]"), int(port)


def _holds_key(certificate: Path) -> bool:
    """Whether the private key is in the same file. One that cannot be read is told of where it is used."""
    try:
        return b"PRIVATE KEY-----" in certificate.read_bytes()
    except OSError:
        return True
