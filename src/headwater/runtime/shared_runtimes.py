"""Which openings share a runtime: those of different apps at one space, branch and actor, in one thread or loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from headwater.machine import machine
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.space_runtime import RuntimeOpening, RuntimePart, SpaceRuntime

R = TypeVar("R", bound=SpaceRuntime)
O = TypeVar("O", bound=RuntimeOpening)  # noqa: E741  # an opening


class _Runtimes:
    """Per-process state: the runtimes that further openings may join, and the apps of each."""

    def __init__(self) -> None:
        self.lock = machine().lock()
        self.by_key: dict[Hashable, list[tuple[SpaceRuntime, set[str]]]] = {}


def runtime_key(lease: Lease, options: Options, *where: object) -> Hashable | None:
    """Equal for openings that share a runtime. None: the opening shares none. `where`: the thread or event loop."""
    if options.apart or lease.is_sole:
        return None
    return (lease.storage, options.branch, options.actor, options.now, options.wall, *where)


def open_in(key: Hashable | None, app: str, *, make: Callable[[], R], join: Callable[[R], O]) -> O:
    """Make an opening of an app: in a runtime with this key in which no app of its name is open, or in a new one."""
    if key is None:
        return _joined(make(), join, RuntimePart())
    state = machine().state(_Runtimes)
    runtime = _reserved(state, key, app)
    if runtime is None:
        runtime = make()
        with state.lock:
            state.by_key.setdefault(key, []).append((runtime, {app}))
    return _joined(cast("R", runtime), join, _SharedPart(state, key, app, runtime))


def _joined(runtime: R, join: Callable[[R], O], part: RuntimePart) -> O:
    try:
        opening = join(runtime)
    except BaseException:
        if part.end():
            runtime.end()
        raise
    opening.part = part
    return opening


def _reserved(state: _Runtimes, key: Hashable, app: str) -> SpaceRuntime | None:
    """A runtime that the app may join. It is noted there at once: two threads do not join with one app."""
    with state.lock:
        for runtime, apps in state.by_key.get(key, ()):
            if app not in apps:
                apps.add(app)
                return runtime
    return None


class _SharedPart(RuntimePart):
    """The part of one app in a runtime that other apps may join."""

    def __init__(self, state: _Runtimes, key: Hashable, app: str, runtime: SpaceRuntime) -> None:
        self._state = state
        self._key = key
        self._app = app
        self._runtime = runtime
        self._is_sealed = False

    def seal(self) -> bool:
        with self._state.lock:
            self._is_sealed = self._apps() == {self._app}
            if self._is_sealed:
                self._drop()
            return self._is_sealed

    def end(self) -> bool:
        with self._state.lock:
            if self._is_sealed:
                return True
            apps = self._apps()
            apps.discard(self._app)
            if not apps:
                self._drop()
            return not apps

    def _apps(self) -> set[str]:
        """The names of the apps that are open in the runtime, or about to be."""
        found = (apps for runtime, apps in self._state.by_key.get(self._key, ()) if runtime is self._runtime)
        return next(found, set())

    def _drop(self) -> None:
        """No other app joins any more."""
        left = [each for each in self._state.by_key.get(self._key, ()) if each[0] is not self._runtime]
        if left:
            self._state.by_key[self._key] = left
        else:
            self._state.by_key.pop(self._key, None)
