"""The options of a declared function: when it may run, what it writes besides its result, what wakes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, TypeAlias, cast

from headwater.cells.document_class import Doc
from headwater.cells.document_operations import address_in, declared_address, identity_key
from headwater.cells.reading import Readable
from headwater.cells.space_port import SpacePort
from headwater.errors import DeclarationError, UsageError
from headwater.scheduler.graph.node import DocPath, OnInvalid
from headwater.values.duration import Duration, to_ms
from headwater.values.ids import DocKey
from headwater.values.schema import short

Writable: TypeAlias = Readable | Doc
"""What a computed may be allowed to write: a cell, a part of one, or a document."""


@dataclass(slots=True, kw_only=True)
class FunctionOptions:
    """The options of one function, checked."""

    eager: bool = False
    debounce_ms: float | None = None
    throttle_ms: float | None = None
    auto_debounce: bool = True
    timeout_ms: float | None = None
    on_invalid: OnInvalid = "restart"
    change_group: str | None = None
    writes: tuple[Writable, ...] = ()
    materializes: tuple[Writable, ...] = ()
    # It has no result: it only writes.
    is_materializer: bool = False
    # A sink that a new session does not run if nothing it read has changed.
    is_quiet: bool = False
    # Part of the fingerprint.
    version: str = ""

    def shares(self, other: FunctionOptions) -> tuple[str, str] | None:
        """The option and the target that both functions write; None if there is none."""
        for option, mine in (("writes", self.writes), ("materializes", self.materializes)):
            for each in mine:
                # `writes` names one address, `materializes` an address and everything below it.
                if any(_meets(each, theirs, is_below=option == "materializes") for theirs in other.writes) or any(
                    _meets(each, theirs, is_below=True) for theirs in other.materializes
                ):
                    return option, _target_text(each)
        return None

    def write_surface(self, home: SpacePort) -> tuple[tuple[DocKey, ...], tuple[DocPath, ...]]:
        """The documents it writes besides its result, and the addresses below which it may write anywhere."""
        places = [(address_in(each, home)[0]) for each in self.writes]
        return tuple(dict.fromkeys(places)), tuple(address_in(each, home) for each in self.materializes)


SINK_OPTIONS = (
    "name",
    "resume",
    "version",
    "debounce",
    "throttle",
    "auto_debounce",
    "timeout",
    "on_invalid",
    "change_group",
)
HANDLER_OPTIONS = ("name", "on", "reads", "backlog", "timeout", "change_group")
COMPUTED_OPTIONS = (
    "name",
    "version",
    "eager",
    "debounce",
    "throttle",
    "timeout",
    "on_invalid",
    "writes",
    "materializes",
)
MATERIALIZER_OPTIONS = ("name", "writes", "version", "debounce", "throttle")


def check_options(where: str, given: Iterable[str], known: tuple[str, ...]) -> None:
    """Raise DeclarationError for an option that this kind of function does not have."""
    for option in given:
        if option not in known:
            raise DeclarationError(f"{where}: there is no option {option}=; it takes {', '.join(known)}", option=option)


def _target_text(target: Writable) -> str:
    return target.address if isinstance(target, Readable) else identity_key(target).removeprefix("space!")


def _meets(one: Writable, other: Writable, *, is_below: bool) -> bool:
    """Whether two targets are the same address, or, with `is_below`, one is below the other."""
    (doc, path), (other_doc, other_path) = declared_address(one), declared_address(other)
    shorter = min(len(path), len(other_path))
    is_around = path[:shorter] == other_path[:shorter]
    return doc == other_doc and (is_around if is_below else path == other_path)


_DEFAULTS = (None, None, None, None, "restart", False, True, "draw", "")
NO_OPTIONS = FunctionOptions()
"""Shared by all functions without options."""


def parse_options(
    where: str,
    *,
    debounce: Duration | None = None,
    throttle: Duration | None = None,
    timeout: Duration | None = None,
    on_invalid: str = "restart",
    writes: Sequence[object] = (),
    materializes: Sequence[object] = (),
    eager: bool = False,
    auto_debounce: bool = True,
    change_group: str | None = None,
    resume: str = "draw",
    version: object = "",
    is_async: bool = False,
    is_materializer: bool = False,
) -> FunctionOptions:
    """The options, checked. Raises DeclarationError."""
    written = check_writables(where, "writes", writes)
    materialized = check_writables(where, "materializes", materializes)
    said = (debounce, throttle, timeout, change_group, on_invalid, eager, auto_debounce, resume, version)
    if said == _DEFAULTS and not written and not materialized:
        return NO_OPTIONS
    for option, value in (("eager", eager), ("auto_debounce", auto_debounce)):
        if type(value) is not bool:
            raise DeclarationError(f"{where}: {option}={value!r}; True or False is expected")
    if change_group is not None and type(change_group) is not str:
        raise DeclarationError(f"{where}: change_group={change_group!r}; a text is expected")
    if on_invalid not in ("restart", "finish"):
        raise DeclarationError(f"{where}: on_invalid={on_invalid!r}; 'restart' or 'finish' is expected")
    if resume not in ("draw", "quiet"):
        raise DeclarationError(f"{where}: resume={resume!r}; 'draw' or 'quiet' is expected")
    if not isinstance(version, str | int):
        raise DeclarationError(f"{where}: version={version!r}; a text or a number is expected")
    if timeout is not None and not is_async:
        message = f"{where}: timeout= is for async functions; a plain one cannot be stopped from outside"
        raise DeclarationError(message)
    return FunctionOptions(
        eager=eager,
        debounce_ms=milliseconds(debounce, f"{where}, debounce="),
        throttle_ms=milliseconds(throttle, f"{where}, throttle="),
        auto_debounce=auto_debounce,
        timeout_ms=milliseconds(timeout, f"{where}, timeout="),
        on_invalid=cast("OnInvalid", on_invalid),
        change_group=change_group,
        writes=written,
        materializes=materialized,
        is_materializer=is_materializer,
        is_quiet=resume == "quiet",
        version=str(version),
    )


def check_returns_nothing(name: str, hint: object) -> None:
    """Raise DeclarationError if a materializer is annotated with a result."""
    if hint not in (Any, None, NoneType):
        message = f"{name}() is a materializer and says that it returns {getattr(hint, '__name__', hint)}"
        raise DeclarationError(f"{message}; what it writes is all that is kept of it", name=name)


def returned_error(name: str, value: object) -> UsageError:
    """The error for a materializer that returned something."""
    message = f"{name}() is a materializer and returned {short(value)}; what it writes is all that is kept of it"
    return UsageError(f"{message}: return nothing", node=name)


def milliseconds(duration: Duration | None, what: str) -> float | None:
    """A duration, checked. Raises DeclarationError."""
    try:
        return None if duration is None else to_ms(duration, what)
    except UsageError as error:
        raise DeclarationError(error.message, **error.facts) from None


def check_writables(where: str, option: str, given: Sequence[object]) -> tuple[Writable, ...]:
    """Cells and documents, checked. Raises DeclarationError."""
    items: list[object] = []
    try:
        items += [given] if isinstance(given, Readable | Doc) else list(given)
    except TypeError:
        items.append(given)
    for each in items:
        if not isinstance(each, Readable | Doc):
            raise DeclarationError(f"{where}: {option}= takes cells and documents of the app, not {each!r}")
    return tuple(cast("list[Writable]", items))
