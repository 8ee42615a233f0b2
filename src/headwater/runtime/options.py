"""The options of an opening, in one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, cast

from headwater.declare.functions.function_port import FunctionPort
from headwater.errors import UsageError
from headwater.machine import machine
from headwater.runtime.console_port import OnConsole, check_handler
from headwater.runtime.error_report import ErrorMode, OnError, check_on_error
from headwater.runtime.lease import Lease
from headwater.scheduler.scheduler_limits import FAILED_MAX
from headwater.store.backends.sqlite_file import Durability
from headwater.store.retention import Retention
from headwater.values.duration import Duration, to_ms
from headwater.values.ids import MAIN, Millis
from headwater.values.seams import Entropy

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from ssl import SSLContext

DemandPolicy: TypeAlias = Literal["lazy", "eager"]
"""Whether computations run only while observed, or always."""


Inspect: TypeAlias = Literal["owner", "off"]
"""Who may ask a server what the functions of a program do."""

Where: TypeAlias = "str | PathLike[str] | Callable[[str], str | PathLike[str] | None]"
"""Where spaces are looked for by their ids: a folder, or a function from an id to a file."""


class OpenOptions(TypedDict, total=False):
    """The options of `app.open`, as `app.opening` takes them."""

    space: str | None
    actor: str | None
    branch: str
    durability: Durability
    create: bool
    demand: DemandPolicy
    on_error: OnError | ErrorMode | None
    on_console: OnConsole | None
    keep_failed: int
    force: bool
    token: str | None
    key: str | PathLike[str] | None
    local: str | PathLike[str] | None
    tls: SSLContext | None
    apart: bool
    resolve: Where | None
    retain: Mapping[str, Duration] | None
    inspect: Inspect


@dataclass(slots=True, kw_only=True)
class Options:
    """The options of `app.open`, `app.aopen` and `app.run`."""

    space: str | None = None
    actor: str | None = None
    branch: str = MAIN
    durability: Durability = "full"
    create: bool = True
    demand: DemandPolicy = "lazy"
    on_error: OnError | ErrorMode | None = None
    on_console: OnConsole | None = None
    # The maximum of failed events that are stored; the oldest are deleted.
    keep_failed: int = FAILED_MAX
    # For a space of a server: the credentials, the local folder, and how its certificate is checked.
    token: str | None = None
    key: str | PathLike[str] | None = None
    local: str | PathLike[str] | None = None
    tls: SSLContext | None = None
    # Where spaces are looked for that links name and the program has not open.
    resolve: Where | None = None
    # How long receipts and sessions are kept, by their words.
    retain: Mapping[str, Duration] | None = None
    # Of a space of a server: who may ask there what the functions of this program do.
    inspect: Inspect = "owner"
    # A clock in milliseconds that never goes back.
    now: Callable[[], float] = field(default_factory=lambda: machine().steady_ms)

    # The wall clock, in milliseconds since 1970: for workflows, and for the times of events.
    wall: Callable[[], Millis] = field(default_factory=lambda: cast("Callable[[], Millis]", machine().now_ms))
    # Deploy workflows although waiting events would be skipped.
    force: bool = False
    # The source of random ids, and the spread of retries, between 0 and 1.
    entropy: Entropy = field(default_factory=machine)
    jitter: Callable[[], float] = field(default_factory=lambda: machine().random)
    # A runtime of its own: no other app shares its transactions.
    apart: bool = False
    # The same as one record, made of the words.
    kept: Retention | None = field(init=False, default=None)
    # For tests: the lease to use instead of a URL; and a function that is called before anything runs.
    lease: Callable[[], Lease] | None = None
    prepare: Callable[[FunctionPort], None] | None = None
    # For tests: called instead of sleeping, with the seconds.
    sleep: Callable[[float], None] | None = None
    # For tests: the loop in which plain code's requests run, instead of one in a thread.
    request_loop: Callable[[], AbstractEventLoop] | None = None

    def __post_init__(self) -> None:
        demand: object = self.demand
        if demand not in ("lazy", "eager"):
            raise UsageError(f"{demand!r} is no demand; 'lazy' or 'eager' is expected", demand=demand)
        check_on_error(self.on_error)
        space: object = self.space
        if space is not None and not isinstance(space, str):
            raise UsageError(f"space={space!r} names no space; a text is expected, such as 'main'")
        actor: object = self.actor
        if actor is not None and (not isinstance(actor, str) or not actor):
            raise UsageError(f"actor={actor!r} names no actor; a text is expected, such as a user's id", actor=actor)
        self.token = _checked_token(self.token)
        if self.token is not None and self.key is not None:
            raise UsageError("token= and key= both say who this is; give one of them")
        for name, path in (("key", self.key), ("local", self.local)):
            given: object = path
            if given is not None and (not isinstance(given, str | PathLike) or not str(given)):
                raise UsageError(f"{name}={given!r} is no path of a {'file' if name == 'key' else 'folder'}")
        tls: object = self.tls
        if tls is not None and not hasattr(tls, "wrap_bio"):
            message = f"tls={tls!r}: an ssl.SSLContext is expected, such as ssl.create_default_context(cafile=...)"
            raise UsageError(message)
        where: object = self.resolve
        is_folder = isinstance(where, str | PathLike) and bool(str(where)) and "://" not in str(where)
        if where is not None and not callable(where) and not is_folder:
            raise UsageError(f"resolve={where!r}: a folder, or a function from an id to a file, is expected")
        self.kept = retention_of(self.retain, "retain")
        _check_inspect(self.inspect)
        check_handler(self.on_console)
        kept: object = self.keep_failed
        if type(kept) is not int or kept < 0:
            raise UsageError(f"keep_failed={kept!r} is no number of events; 0 or more is expected", keep_failed=kept)


def options_for_opening(given: OpenOptions) -> Options:
    """The record of the arguments of `app.opening`. Raises TypeError for a name that `app.open` does not know."""
    for name in given:
        # What only the package itself sets, such as a clock, is not one of them.
        if name not in OpenOptions.__annotations__:
            raise TypeError(f"App.opening() got an unexpected keyword argument {name!r}")
    given.setdefault("on_error", "raise")
    return Options(**given)


def _check_inspect(inspect: object) -> None:
    if inspect not in ("owner", "off"):
        raise UsageError(f"inspect={inspect!r} is not known: 'owner' or 'off' is expected", inspect=inspect)


def retention_of(given: Mapping[str, Duration] | None, what: str) -> Retention | None:
    """What is kept for how long, from words: {"receipts": "30d"}. Raises UsageError."""
    if given is None:
        return None
    found: object = given
    if not isinstance(found, Mapping) or found.keys() - {"receipts", "sessions"}:
        raise UsageError(
            f'{what}={given!r}: times for receipts and sessions are expected, such as {{"receipts": "30d"}}'
        )
    times = {name: int(to_ms(each, f"{what}: {name}")) for name, each in given.items()}
    return Retention(receipts_ms=times.get("receipts"), sessions_ms=times.get("sessions"))


def _checked_token(given: object) -> str | None:
    """The token without a final line break. Raises UsageError, which does not contain it."""
    if given is None:
        return None
    token = given.strip() if isinstance(given, str) else ""
    if not token.isascii() or len(token.split()) != 1:
        raise UsageError("token=...: one word is expected, as `headwater token create` prints it")
    return token
