"""Parts of generated apps that a world has once: a function that waits for long, a resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sim.apps import parts as p
from sim.apps.resources import Resource

if TYPE_CHECKING:
    from sim.apps.generate import Draft

LONG_MS: Final = 8000
"""A delay that closing does not wait for."""


def delayed(draft: Draft) -> None:
    """A function that waits before it runs, and a handler that has to wait for what it writes, sometimes for long."""
    target, number = draft.name("t"), draft.pick(draft.ints)
    draft.add(p.IntCell(target))
    debounce = draft.pick((20, 50, LONG_MS))
    draft.add(p.Computed(draft.name("c"), p.Read(number), target=target, debounce=debounce, eager=True))
    draft.kept.append(target)
    if "handlers" in draft.features:
        seen = p.If(p.Binary("<", p.Param(), p.Const(3)), p.Read(target), p.Const(0))
        draft.handlers.append(draft.add(p.Handler(draft.name("h"), (p.Look(seen),), p.Param())).name)


def raced(draft: Draft) -> None:
    """A handler that takes its time after it has read a function: others change what that depends on meanwhile."""
    if "handlers" not in draft.features:
        return
    body = p.Binary("+", p.Read(draft.pick(draft.ints)), p.Const(1))
    draft.calls.append(draft.add(p.Computed(draft.name("c"), body)))
    target = draft.add(p.IntCell(draft.name("t"))).name
    steps = (p.Put(target, p.Call(draft.calls[-1].name)),)
    draft.handlers.append(draft.add(p.Handler(draft.name("h"), steps, p.Param(), slow=draft.pick((5, 20)))).name)


def resource(draft: Draft) -> None:
    """One that is asked again when its value is old, or when a request has failed, or neither."""
    fresh, retries = draft.pick(((0, 0), (0, 3), (300, 0), (300, 3), (2000, 3)))
    draft.add(Resource(draft.name("u"), draft.pick(draft.ints), fresh, retries))


MORE: Final[dict[str, Callable[[Draft], None]]] = {"gates": delayed, "slow": raced, "resources": resource}
"""By feature."""
