"""What an app needs to be opened: an event loop, resources, a host of workflows."""

from __future__ import annotations

from typing import Any

from headwater.declare.functions.function_code import is_async
from headwater.declare.resources.resource import Resource
from headwater.declare.verbs import Declarer, Function
from headwater.errors import DeclarationError


class AppNeeds(Declarer):
    """The part of an app that answers what it needs."""

    name: str
    _functions: dict[str, Function]
    _workflows: dict[str, Any]

    @property
    def needs_event_loop(self) -> bool:
        """Whether a function of the app is async. Such an app is opened with `aopen`."""
        return any(_needs_loop(function) for function in self._functions.values())

    @property
    def has_resources(self) -> bool:
        """Whether the app declares resources."""
        return any(isinstance(function, Resource) for function in self._functions.values())

    @property
    def has_workflows(self) -> bool:
        """Whether the app declares workflows, which a host executes."""
        return bool(self._workflows)

    def _check_plain(self) -> None:
        """Refuse what only an event loop can run."""
        for name, function in self._functions.items():
            if _needs_loop(function):
                raise self._needs_loop(name)

    def _needs_loop(self, name: str) -> DeclarationError:
        message = f"{name}() is async and needs an event loop: open the app with `async with app.aopen(...)`"
        return DeclarationError(message, app=self.name, name=name)


def _needs_loop(function: Function) -> bool:
    """It is async; but requests have a loop of their own."""
    return is_async(function.__wrapped__) and not isinstance(function, Resource)
