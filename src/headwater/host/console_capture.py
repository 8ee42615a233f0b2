"""What authors' functions print and log, passed to `space.on_console` together with the run that wrote it.

While any space listens, `sys.stdout` and `sys.stderr` are wrapped, and log records are made through here. A text
belongs to the run around the code that writes it, which is looked up only then. Output of other code in the process
is forwarded unchanged. While no space listens, nothing is wrapped.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, NamedTuple, TextIO, cast

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.errors import UserCodeError
from headwater.machine import Lock, machine
from headwater.runtime.console_port import Console, OnConsole, Stream, Voice, check_handler
from headwater.scheduler.events.event import EventRecord, HandlerRecord
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.function_errors import facts_of
from headwater.values.address import address_text
from headwater.values.author_text import describe, safe_repr

PART_MAX: Final = 8192
"""Characters of a line that wait for its end; of a longer one, they are handed over as a part."""

NO_LEVEL: Final = -1
"""Below the level of every log handler: a record that none of them takes."""

READ_ONLY: Final = (
    "on_console may not write {}: it is called in the middle of a run; keep the text, and write when the run is over"
)


class Listener:
    """The handler of one space."""

    def __init__(self, home: SpacePort, handler: OnConsole, report: Callable[[UserCodeError], None]) -> None:
        self.home = home
        self.handler = handler
        self._report = report
        self._has_failed = False

    def ask(
        self, run: CapturedRun, text: str, stream: Stream, level: int | None = None, logger: str | None = None
    ) -> str | None:
        """Call the handler with a text. Returns what to forward; None: the text unchanged."""
        node = run.node
        heard = Console(
            text=text,
            stream=stream,
            level=level,
            logger=logger,
            node=node.name,
            piece=node.piece,
            space=self.home.name,
            event=run.tx.event.id if isinstance(run.tx.event, EventRecord) else None,
            triggers=tuple(address_text(*place) for place in run.tx.triggers),
            run=node.runs,
        )
        with _apart(self.home):
            try:
                answer: object = self.handler(heard)
            except Exception as error:  # noqa: BLE001  # a function of the author's, which stops nothing
                self.fails(run, f"raised {describe(error)}", error)
                return None
            if answer is None or isinstance(answer, str):
                return answer
            self.fails(run, f"returned {safe_repr(answer)}, where None or text is expected", None)
            return None

    def fails(self, run: CapturedRun, how: str, error: Exception | None) -> None:
        """Report an error of the handler, once: a handler that fails for one line may fail for all."""
        if self._has_failed:
            return
        self._has_failed = True
        name, title = self.home.name, run.node.title
        message = f"on_console in space {name!r} {how}. What {title} wrote is forwarded as is. This is reported once"
        facts = {} if isinstance(run.node, Voice) else facts_of(run.node, run.tx.triggers)
        told = UserCodeError(message, space=name, **facts)
        told.__cause__ = error
        self._report(told)


class CapturedRun(NamedTuple):
    """A run of a function in a space that listens."""

    listener: Listener
    tx: Transaction
    node: Node | HandlerRecord | Voice


@dataclass(slots=True)
class ConsoleState:
    """The listeners of this process. A run costs nothing more while there are none."""

    listeners: dict[SpacePort, Listener] = field(default_factory=dict)
    # Incomplete lines, by run, stream and thread.
    parts: dict[tuple[Transaction, Wrapped, int], tuple[CapturedRun, str]] = field(default_factory=dict)
    # Threads that are calling a handler: their output meanwhile is not captured.
    busy: set[int] = field(default_factory=set)
    # For listeners, parts and the wrapping of streams. No handler is called while it is held.
    lock: Lock = field(default_factory=lambda: machine().rlock())

    def listen(self, home: SpacePort, handler: OnConsole | None, report: Callable[[UserCodeError], None]) -> None:
        """Capture the output of runs of a space from now on; with None no longer."""
        check_handler(handler)
        if home in self.listeners:
            _hand_over(lambda run: run.listener.home is home)
        with self.lock:
            if handler is None:
                if self.listeners.pop(home, None) is not None and not self.listeners:
                    _unwrap()
            else:
                self.listeners[home] = Listener(home, handler, report)
                _wrap()

    def handler_of(self, home: SpacePort) -> OnConsole | None:
        """The handler of a space."""
        listener = self.listeners.get(home)
        return None if listener is None else listener.handler

    def run_begins(self, home: SpacePort) -> None:
        """Wrap the streams again: others may have replaced them."""
        with self.lock:
            if home in self.listeners:
                _wrap()

    def run_ends(self, tx: Transaction) -> None:
        """Pass on incomplete lines: of this run, and of threads that wrote while another run was ending."""
        if self.parts:
            _hand_over(lambda run: run.tx is tx or not run.tx.is_open)


def console() -> ConsoleState:
    """The capture of this process."""
    return machine().state(ConsoleState)


# -- whose text it is ------------------------------------------------------------------------------------------


@contextmanager
def unheard() -> Iterator[None]:
    """Output of this thread inside the block is not captured."""
    busy, me = console().busy, machine().thread_id()
    if me in busy:
        yield
        return
    busy.add(me)
    try:
        yield
    finally:
        busy.discard(me)


@contextmanager
def _apart(home: SpacePort) -> Iterator[None]:
    """Outside of the run around this code: reads are not recorded for it, and writes are refused."""
    tx = Transaction(home.replica, "on_console", read_only=READ_ONLY)
    token = CONTEXT.set(ContextFrame(home, tx, None, is_bounded=False))
    try:
        with unheard():
            yield
    finally:
        CONTEXT.reset(token)
        if tx.is_open:
            tx.abort()


def _run_here() -> CapturedRun | None:
    """The run around this code, if its space listens. Code that outlives its run, such as a task, is in none."""
    state = console()
    if not state.listeners or machine().thread_id() in state.busy:
        return None
    frame = CONTEXT.get()
    while frame is not None:
        tx = frame.tx
        node = None if tx is None else tx.console_source or tx.node
        if tx is not None and isinstance(node, Node | HandlerRecord | Voice):
            listener = state.listeners.get(frame.space)
            return CapturedRun(listener, tx, node) if listener is not None and tx.is_open else None
        frame = frame.outer
    return None


_LOGS: Final = logging.Logger.callHandlers.__code__


def _is_log(run: CapturedRun) -> bool:
    """Whether a log handler writes for the function of this run: the record was captured when it was made."""
    node = run.node
    function = None
    if not isinstance(node, Voice):
        declared = node.spec if isinstance(node, HandlerRecord) else node
        function = getattr(declared.origin or declared.fn, "__code__", None)
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  # there is no other way to tell
    while frame is not None and frame.f_code is not function:
        if frame.f_code is _LOGS:
            return True
        frame = frame.f_back
    return False


# -- what is printed -------------------------------------------------------------------------------------------


class Wrapped:
    """Replaces `sys.stdout` or `sys.stderr`. Output outside of captured runs is forwarded unchanged."""

    def __init__(self, inner: TextIO, stream: Stream) -> None:
        self.hw_inner = inner
        self.hw_stream = stream

    def write(self, text: str) -> int:
        """Pass on complete lines. The rest waits for the end of its line, or of the run."""
        run = _run_here()
        if run is None or not isinstance(cast("object", text), str) or _is_log(run):
            return self.hw_inner.write(text)
        key = (run.tx, self, machine().thread_id())
        state = console()
        with state.lock:
            before = state.parts.pop(key, None)
            *lines, rest = (text if before is None else before[1] + text).split("\n")
            if rest and len(rest) <= PART_MAX:
                state.parts[key] = (run, rest)
                rest = ""
        for line in lines:
            self.hw_forward(run, line, "\n")
        if rest:
            self.hw_forward(run, rest, "")
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As for every stream, without adding line ends."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush, also in the middle of a line."""
        state = console()
        if state.parts and (run := _run_here()) is not None:
            with state.lock:
                part = state.parts.pop((run.tx, self, machine().thread_id()), None)
            if part is not None:
                self.hw_forward(run, part[1], "")
        self.hw_inner.flush()

    def hw_forward(self, run: CapturedRun, text: str, end: str) -> None:
        """Call the handler, and forward what it returns."""
        answer = run.listener.ask(run, text, self.hw_stream)
        if answer != "":
            with unheard():
                self.hw_inner.write((text if answer is None else answer) + end)

    def __getattr__(self, name: str) -> object:
        return getattr(self.hw_inner, name)

    def __repr__(self) -> str:
        return f"<heard by headwater: {self.hw_inner!r}>"


def _hand_over(is_meant: Callable[[CapturedRun], bool]) -> None:
    """Pass on lines that stay incomplete."""
    state = console()
    with state.lock:
        meant = [(key, *part) for key, part in state.parts.items() if is_meant(part[0])]
        for key, _, _ in meant:
            del state.parts[key]
    for (_, stream, _), run, text in meant:
        try:
            stream.hw_forward(run, text, "")
        except Exception as error:  # noqa: BLE001  # the function that could be told has ended
            with _apart(run.listener.home):
                run.listener.fails(run, f"could not forward text: {describe(error)}", error)


# -- what is logged --------------------------------------------------------------------------------------------


class Recorder:
    """Makes log records with the former factory, and passes on those of captured runs."""

    def __init__(self, inner: Callable[..., logging.LogRecord]) -> None:
        self.inner = inner

    def __call__(self, *args: object, **kwargs: object) -> logging.LogRecord:
        run = _run_here()
        if run is None:
            return self.inner(*args, **kwargs)
        with unheard():
            record = self.inner(*args, **kwargs)
        name: object = record.name
        if isinstance(name, str):
            self._hear(run, record)
        return record

    @staticmethod
    def _hear(run: CapturedRun, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001  # arguments that do not fit: logging tells of that when it shows the record
            text = record.msg if isinstance(record.msg, str) else safe_repr(record.msg)
        answer = run.listener.ask(run, text, "log", record.levelno, record.name)
        if answer:
            record.msg, record.args = answer, ()
        elif answer is not None:
            record.levelno = NO_LEVEL


# -- around everything -----------------------------------------------------------------------------------------


def _wrap() -> None:
    """Install the wrapper around the stream, unless it is installed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and type(stream) is not Wrapped:
            setattr(sys, name, Wrapped(stream, name))
    factory = logging.getLogRecordFactory()
    if type(factory) is not Recorder:
        logging.setLogRecordFactory(Recorder(factory))


def _unwrap() -> None:
    """Remove the wrapper. If another wrapper was put around it meanwhile, it stays, and forwards everything."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is Wrapped:
            setattr(sys, name, stream.hw_inner)
    factory = logging.getLogRecordFactory()
    if type(factory) is Recorder:
        logging.setLogRecordFactory(factory.inner)
