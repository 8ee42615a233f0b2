"""Apps named on the command line as MODULE:APP: imported, and opened for as long as a command takes.

What they print goes to stderr: standard output is the command's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwater.app import App
from headwater.errors import HeadwaterError, NotFoundError, UsageError, UserCodeError
from headwater.host.space_facade import opening_of
from headwater.inspect.opening_inspection import OpeningInspection, inspection_of
from headwater.machine import machine
from headwater.runtime.options import Options
from headwater.values.author_text import describe
from headwater.values.suggestions import did_you_mean


def is_module(text: str | None) -> bool:
    """Whether `--app` is MODULE:APP, an app to open. Otherwise it names an open app."""
    return text is not None and ":" in text


@contextmanager
def quiet() -> Iterator[None]:
    """Send the output of author code to stderr: standard output is the command's."""
    with redirect_stdout(sys.stderr):
        yield


def load_app(text: str, where: str = "--app") -> App:
    """The app that MODULE:APP names `where`. Raises NotFoundError, UsageError; UserCodeError if the module raises."""
    module_name, _, name = text.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        hint = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise UsageError(f"{where} {text}: a module is expected, as python imports it; did you mean {hint}:{name}?")
    module = _imported(module_name, text, where)
    found: object = module
    for part in filter(None, name.split(".")):
        found = getattr(found, part, None)
    if isinstance(found, App) and name:
        return found
    apps = {known: value for known, value in vars(module).items() if isinstance(value, App)}

    hint = did_you_mean(name, apps) or (f"; there is {', '.join(apps)}" if apps else "; no app is declared there")
    what = f"{name} is no app" if name and found is not None else f"there is no {name or 'name of an app'}"
    raise NotFoundError(f"{where} {text}: {what} in module {module_name}{hint}", app=text)


def _imported(module_name: str, text: str, where: str) -> Any:  # noqa: ANN401  # a module
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with quiet():
        try:
            if find_spec(module_name) is None:
                raise ModuleNotFoundError(module_name, name=module_name)
            return import_module(module_name)
        except HeadwaterError:
            raise
        except ModuleNotFoundError as error:
            if error.name is None or not (f"{module_name}.").startswith(f"{error.name}."):
                raise _broken(module_name, error) from error
            message = f"{where} {text}: there is no module {error.name} here, nor where python looks for them"
            raise NotFoundError(message, app=text) from None
        except (Exception, SystemExit) as error:
            raise _broken(module_name, error) from error


def _broken(module_name: str, error: BaseException) -> UserCodeError:
    return UserCodeError(f"importing {module_name} raised {describe(error)}", module=module_name)


def while_open(app: App, url: str | None, options: Options, work: Callable[[OpeningInspection], None]) -> None:
    """Call `work` while an app is open, in an event loop if the app needs one."""
    with quiet():
        if not app.needs_event_loop:
            with app.open_with(url, options) as space:
                work(inspection_of(opening_of(space)))
            return

        machine().run(_in_loop(app, url, options, work))


async def _in_loop(app: App, url: str | None, options: Options, work: Callable[[OpeningInspection], None]) -> None:
    async with app.aopen_with(url, options) as space:
        await machine().to_thread(work, inspection_of(opening_of(space)))
