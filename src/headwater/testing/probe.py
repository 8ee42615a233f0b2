"""Apps opened for a test, with controlled time and restarts.

with probe(app) as t:
    query.value = "app"
    t.advance("1s")
    assert t.runs(hits) == 2
    t.restart()
    assert t.runs(hits) == 2

Length: one class and the function that makes it, with their text for the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime
from io import StringIO
from random import Random
from types import TracebackType
from typing import Final, Self, cast

from headwater.app import App
from headwater.cells.context import CONTEXT
from headwater.declare.functions.function_port import FunctionPort
from headwater.errors import HeadwaterError, UsageError, UserCodeError
from headwater.host.async_space import AsyncSpace
from headwater.host.author_modules import new_fingerprints
from headwater.host.console_capture import unheard
from headwater.host.plain_space import Space
from headwater.host.space_files import DEFAULT_SPACE
from headwater.host.storage import Storage
from headwater.runtime.console_port import OnConsole
from headwater.runtime.lease import Lease
from headwater.runtime.options import DemandPolicy, Options
from headwater.runtime.pass_port import PassPort
from headwater.scheduler.graph.node import Node
from headwater.scheduler.inspect.idempotency import ADVICE, Difference
from headwater.scheduler.runs.attempt import Call
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.engine import Engine
from headwater.testing.sim_clock import START_MS, SeededEntropy
from headwater.testing.stage import ROUNDS_MAX, LoopStage, OpenedApp, PlainStage, Stage, restless
from headwater.values.author_text import add_note, text_of
from headwater.values.duration import Duration, to_ms
from headwater.values.ids import MAIN, Millis
from headwater.values.seams import Clock

SHOWN_MAX: Final = 5
"""Functions in one message, and places of each. The first few are enough."""


class ProbeError(AssertionError):
    """A check of `probe` has failed: the test would pass, but the app breaks a rule."""


class Probe:
    """Apps that are open for a test, under simulated time. Made by `probe`."""

    def __init__(  # noqa: PLR0917  # made in one place
        self,
        apps: tuple[App, ...],
        one_space: bool,  # noqa: FBT001
        seed: int,
        start_ms: int,
        idempotency: bool,  # noqa: FBT001
        actor: str | None,
        demand: DemandPolicy,
        on_console: OnConsole | None,
        in_loop: bool,  # noqa: FBT001
    ) -> None:
        self._apps = apps
        self._in_loop = in_loop
        self._start_ms = start_ms
        self._checks = idempotency
        self._actor = actor
        self._demand: DemandPolicy = demand
        self._on_console = on_console
        self._entropy = SeededEntropy(seed)
        self._jitter = Random(seed).random
        # What outlives a restart: the store, and what the functions are known by, for their code is the same.
        self._stores = [_Store(name) for name in _names(apps, one_space=one_space)]
        self._prints = new_fingerprints()
        self._stage: Stage | None = None
        # Of the earlier openings this one.
        self._runs: dict[object, int] = {}
        self._errors: list[UserCodeError] = []
        self._differences: list[Difference] = []
        # How many of these were read by the test.
        self._errors_read = self._differences_read = 0

    # -- around the block ----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._stage is not None:
            raise UsageError("a probe is entered once; call probe(app) for each test")
        self._stage = LoopStage(self._apps) if self._in_loop else PlainStage(self._apps)
        try:
            self._open()
        except BaseException:
            self._stage.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stage = self._staged()
        try:
            if stage.is_open:
                if error is None:
                    self._check_restored(stage.openings())
                stage.close()
        except HeadwaterError as failed:
            if error is None:
                raise
            add_note(error, f"besides, a space could not be closed: {failed}")
        finally:
            stage.end()
        wrong = self._wrong()
        if error is not None:
            for each in wrong:
                add_note(error, f"besides: {text_of(each)}")
        elif wrong:
            for each in wrong[1:]:
                add_note(wrong[0], f"besides: {text_of(each)}")
            raise wrong[0]

    def _wrong(self) -> list[Exception]:
        """The errors and differences that the test has not read."""
        found: list[Exception] = list(self._errors[self._errors_read :])
        differences = self._differences[self._differences_read :]
        return [*found, ProbeError(_told(differences))] if differences else found

    def _staged(self) -> Stage:
        if self._stage is None:
            raise UsageError("a probe is used inside of its `with` block: `with probe(app) as t:`")
        return self._stage

    def _open(self) -> None:
        self._staged().open([self._options(index) for index in range(len(self._apps))])

    def _options(self, index: int) -> Options:
        store = self._stores[min(index, len(self._stores) - 1)]
        return Options(
            actor=self._actor,
            demand=self._demand,
            on_error=self._errors.append,
            on_console=self._on_console,
            now=self._staged().now_ms,
            wall=self.now_ms,
            sleep=self._staged().sleep,
            entropy=self._entropy,
            jitter=self._jitter,
            lease=lambda: store.lease(self, self._entropy),
            prepare=self._prepare,
        )

    def _prepare(self, space: FunctionPort) -> None:
        space.fingerprints = self._prints
        if self._checks:
            diagnosis = space.scheduler.idempotency
            diagnosis.differences = self._differences
            diagnosis.perform = _quietly(diagnosis.perform)
            space.scheduler.set_idempotency_check(True)

    # -- time ----------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The simulated time."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def now_ms(self) -> Millis:
        """The same, in milliseconds since 1970."""
        return Millis(self._start_ms + int(self._staged().now_ms()))

    def settle(self) -> None:
        """Run everything that can run now, workflows included, until everything is stored. No time passes.

        Raises:
            ProbeError: The app does not come to rest.
        """
        stage = self._staged()
        self._check_outside("settle")
        for _ in range(ROUNDS_MAX):
            stage.calm()
            # All of them: one may publish to a topic of another.
            drained = [space.workflows.drain() for space in self._with_workflows()]
            if not any(drained):
                return
        raise restless()

    def _with_workflows(self) -> list[Space | AsyncSpace]:
        spaces = zip(self._apps, self._staged().opened(), strict=True)
        return [space for app, space in spaces if app.has_workflows and not space.closed]

    def advance(self, duration: Duration) -> None:
        """Let time pass, and run what becomes due, each at its time.

        Args:
            duration: How long: a text such as `"5m"`, or a `timedelta`.

        Raises:
            UsageError: HW100. The duration cannot be read, or is negative.

        Example:
            ```python
            import headwater as hw
            from headwater.testing import probe

            app = hw.App("watch")
            ticks = app.cell("ticks", 0)


            @app.sink
            def count() -> None:
                hw.clock("1m")
                ticks.increment()


            with probe(app) as t:
                t.advance("2m")
                print(ticks.value)  # 3
            ```
        """
        stage = self._staged()
        ms = to_ms(duration, "t.advance(...)")
        self._check_outside("advance")
        end = stage.now_ms() + ms
        self.settle()
        stuck = 0
        while (at := self._due_at()) is not None and at <= end:
            before = stage.now_ms()
            stage.move_to(at)
            self.settle()
            stuck = stuck + 1 if stage.now_ms() == before else 0
            if stuck > ROUNDS_MAX:
                raise restless()
        stage.move_to(end)
        self.settle()

    def _due_at(self) -> float | None:
        """The earliest time at which something is due."""
        stage = self._staged()
        node = stage.due_at()
        due = [] if node is None else [node]
        for space in self._with_workflows():
            wall = space.workflows.wake_at
            # What was due just now and was not executed does not wait for time.
            if wall is not None and wall - self._start_ms > stage.now_ms():
                due.append(float(wall - self._start_ms))
        return min(due, default=None)

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def space(self) -> Space | AsyncSpace:
        """The open space, that of the first app. After a restart it is another object."""
        return self._staged().opened()[0]

    @property
    def spaces(self) -> tuple[Space | AsyncSpace, ...]:
        """The open spaces, in the order of the apps. After a restart they are other objects."""
        return self._staged().opened()

    def runs(self, function: object) -> int:
        """How often a function has run since the test began, in all openings together.

        Args:
            function: A function of one of the apps.

        Returns:
            The number of runs.

        Raises:
            UsageError: HW100. The function is not one of these apps.
        """
        first, *others = self._staged().opened()
        for space in others:
            with suppress(UsageError):
                return self._runs.get(function, 0) + space.runs(function)
        return self._runs.get(function, 0) + first.runs(function)

    @property
    def errors(self) -> list[UserCodeError]:
        """Errors of functions without a caller. Errors read here do not fail the test.

        Errors of computed functions are raised where these are called, and those of handlers at their tickets.
        """
        self._errors_read = len(self._errors)
        return list(self._errors)

    @property
    def differences(self) -> list[Difference]:
        """Differences between a run and its repetition. Differences read here do not fail the test."""
        self._differences_read = len(self._differences)
        return list(self._differences)

    # -- again ---------------------------------------------------------------------------------------------

    def restart(self, *, crash: bool = False) -> None:
        """Restart all apps: drop the state of the process, and open the same stores again.

        Functions that would not run after a real restart must not run here.

        Args:
            crash: Whether the process is killed. Otherwise the spaces are closed first.

        Raises:
            ProbeError: A function ran although nothing that it read had changed.

        Example:
            ```python
            import headwater as hw
            from headwater.testing import probe

            app = hw.App("counter")
            count = app.cell("count", 0)

            with probe(app) as t:
                count.value = 7
                t.settle()
                t.restart(crash=True)
                print(count.value)  # 7
            ```
        """
        self._check_outside("restart")
        stage = self._staged()
        openings = stage.openings()
        self._check_restored(openings)
        current: dict[object, Node] = {} if crash else self._current(openings)
        for space in openings:
            for function in (*space.nodes, *space.instances, *space.handlers, *space.resources):
                self._runs[function] = self._runs.get(function, 0) + space.runs(function)
        stage.close(crashed=crash)
        self._open()
        self._check_rested(current)

    def _check_restored(self, spaces: Sequence[PassPort]) -> None:
        """Record a difference for each restored node whose run has another result."""
        # Once for openings of one space.
        for space in {id(space.scheduler): space for space in spaces if self._checks}.values():
            with space.lock:
                space.scheduler.recheck_restored()

    def _check_outside(self, verb: str) -> None:
        spaces, frame = self._staged().openings(), CONTEXT.get()
        if frame is None or frame.space not in spaces or frame.tx is not None:
            message = f"t.{verb}(...) is called by the test itself, not in a transaction, in another space or in a run"
            raise UsageError(message)

    @staticmethod
    def _current(spaces: Sequence[OpenedApp]) -> dict[object, Node]:
        """Functions that need not run when the spaces are opened again."""
        # All of them first: what was read in another space is noted when it is on disk there.
        for space in spaces:
            space.take_in_decided()
        for space in spaces:
            space.store_observations()
        return {function: node for space in spaces for function, node in _stored(space).items()}

    def _check_rested(self, current: dict[object, Node]) -> None:
        told: list[str] = []
        for space in self._staged().opened():
            reasons = {each.node: each.reason for each in space.explain_resume().missed}
            ran = [node for function, node in space.nodes.items() if function in current and node.runs]
            told += [f"{node.title} ran again: {reasons[node.id]}" for node in ran if node.id in reasons]
        if told:
            message = "after the restart functions ran although nothing that they read had changed"
            raise ProbeError("\n  ".join([message, *told]))


def _stored(space: OpenedApp) -> dict[object, Node]:
    """The functions of one opening that are current, and stored."""
    found = {
        function: node
        for function, node in space.nodes.items()
        if node.is_clean
        and node.attempt is None
        and node.has_value
        and node.error is None
        and node.fingerprint is not None
        # Nothing is stored for results in a user's scope, and for calls whose arguments cannot be stored.
        and not node.result_scope
        and not any(
            source.spec.is_instance and source.called_with is None for source in space.scheduler.graph.sources(node)
        )
    }

    def kept(engine: Engine) -> dict[object, Node]:
        engine.fold()
        key = {function: node.stored_as or node.outputs[0] for function, node in found.items()}
        return {each: node for each, node in found.items() if engine.backend.observation(MAIN, key[each])}

    return space.ask_store(kept)


class _Store:
    """What outlives a restart of one space, and its shares: several apps may be open there."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._backend = MemoryBackend()
        self._storage: Storage | None = None
        self._count = 0

    def lease(self, clock: Clock, entropy: SeededEntropy) -> Lease:
        if self._storage is None:
            if self._backend.meta("space") is None:
                self._backend.set_meta("space", self._name)
            self._storage = Storage(self._backend, clock, entropy, name=self._name)
        self._count += 1
        return Lease(self._storage, None, self._release)

    def _release(self) -> None:
        self._count -= 1
        if self._storage is not None and not self._count:
            self._storage.close()
            self._storage = None


def _names(apps: Sequence[App], *, one_space: bool) -> list[str]:
    """The names of the spaces: that of one app is "main", as without a probe; those of several are as their apps."""
    return [DEFAULT_SPACE] if one_space or len(apps) == 1 else [app.name for app in apps]


def _quietly(perform: Callable[[Call], None]) -> Callable[[Call], None]:
    """Suppress the output of a run that only checks: the original run has printed it."""

    def performed(call: Call) -> None:
        with unheard(), redirect_stdout(StringIO()):
            perform(call)

    return performed


def _told(differences: list[Difference]) -> str:
    """Each function once, with its first difference and other places of the same run."""
    heads: dict[tuple[str, str], list[Difference]] = {}
    for each in differences:
        heads.setdefault((each.node, each.line), []).append(each)
    lines: list[str] = []
    for found in list(heads.values())[:SHOWN_MAX]:
        lines.append(found[0].head)
        rows = list(dict.fromkeys(each.row for each in found if each.on_top == found[0].on_top))
        lines += [f"  {row}" for row in rows[:SHOWN_MAX]]
        if len(rows) > SHOWN_MAX:
            lines.append(f"  and {len(rows) - SHOWN_MAX} more")
    if len(heads) > SHOWN_MAX:
        lines.append(f"and {len(heads) - SHOWN_MAX} more functions")
    return "\n".join([*lines, f"fix: {ADVICE}"])


def probe(
    app: App,
    *others: App,
    one_space: bool = False,
    seed: int = 0,
    start: datetime | None = None,
    idempotency: bool = True,
    actor: str | None = None,
    demand: DemandPolicy = "lazy",
    on_console: OnConsole | None = None,
    event_loop: bool | None = None,
) -> Probe:
    """Open apps for a test, in memory and under simulated time. Use it in a `with` statement.

    Several apps are opened as by `hw.together`, each in a space of its own, and restart together. Time stands still
    until `t.advance(...)`. An exception in a sink fails the test at the end of the block, unless the test has read
    `t.errors`. Apps with async functions or resources have a simulated event loop; the test stays plain code.

    Args:
        app: The app.
        others: More apps, whose functions read it, or which it sends to.
        one_space: Whether all apps are open in one space, with one transaction over all.
        seed: The seed of ids that would be random.
        start: The simulated time at the beginning, with a time zone.
        idempotency: Whether each run of a computed function is repeated. A difference fails the test.
        actor: The user that the app acts for.
        demand: `"lazy"` or `"eager"`, as in `app.open`.
        on_console: A function that gets each line that functions print or log.
        event_loop: Whether there is an event loop. By default, if functions of the app need one.

    Returns:
        The probe.

    Raises:
        UsageError: HW100. One is not an app, or is there twice, or `start` has no time zone.

    Example:
        ```python
        import headwater as hw
        from headwater.testing import probe

        app = hw.App("counter")
        count = app.cell("count", 0)

        with probe(app) as t:
            count.value = 7
            t.restart()
            print(count.value)  # 7
        ```
    """
    apps = (app, *others)
    for given in cast("tuple[object, ...]", apps):
        if not isinstance(given, App):
            raise UsageError(f"probe({given!r}): an hw.App is expected")
        if apps.count(given) > 1:
            raise UsageError(f"probe(...): {given!r} is there twice; give each app once")
    when: object = start
    if when is not None and (not isinstance(when, datetime) or when.tzinfo is None):
        raise UsageError(f"probe(start={when!r}): a datetime with a time zone is expected, or nothing")
    start_ms = START_MS if start is None else int(start.timestamp() * 1000)
    needs_loop = any(each.needs_event_loop or each.has_resources for each in apps)
    in_loop = needs_loop if event_loop is None else event_loop
    return Probe(apps, one_space, seed, start_ms, idempotency, actor, demand, on_console, in_loop)
