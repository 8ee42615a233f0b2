"""The app: what an author declares, and how it is opened.

Declaring does no IO. An app collects cells, documents and functions; `open` gives them a place to live.

Length: the options of `open`, `aopen` and `run` are spelled out three times, for editors and type checkers.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, Unpack

from headwater.cells.context import CONTEXT, Addressed, name_of
from headwater.cells.document_class import Doc
from headwater.declare.app_needs import AppNeeds
from headwater.declare.collections.collection import Collection
from headwater.declare.collections.collection_verb import CollectionVerb
from headwater.declare.described import described
from headwater.declare.events.handler import Handler, Stream
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.sink import Sink
from headwater.declare.verb_port import CURRENT_BUILDER
from headwater.declare.verbs import Declarer, Function
from headwater.errors import AmbiguousError, DeclarationError, NameRefusedError, NotOpen, UsageError
from headwater.host.composition import host_parts, workflow_parts
from headwater.host.notebook_openings import close_former
from headwater.host.opening_place import place_of, url_text
from headwater.host.plain_opening import PlainOpening, joined_opening
from headwater.host.plain_space import Space
from headwater.host.process_lifetime import Stay
from headwater.host.space_files import share_space
from headwater.host.standard_streams import lasting
from headwater.host.together import AppOpening
from headwater.inspect.opening_inspection import OpeningInspection
from headwater.machine import machine
from headwater.runtime.collection_records import declare_collections
from headwater.runtime.console_port import OnConsole
from headwater.runtime.error_report import ErrorMode, OnError
from headwater.runtime.lease import Lease
from headwater.runtime.opening import Opening
from headwater.runtime.opening_steps import begin
from headwater.runtime.options import DemandPolicy, Inspect, OpenOptions, Options, Where, options_for_opening
from headwater.runtime.tracebacks import install
from headwater.runtime.type_records import keep_types
from headwater.scheduler.scheduler_limits import FAILED_MAX
from headwater.store.backends.sqlite_file import Durability
from headwater.values.duration import Duration
from headwater.values.ids import MAIN
from headwater.workflow.workflow_limits import KEEP_RUNS
from headwater.workflow.workflow_spec import OnPoison

if TYPE_CHECKING:
    from ssl import SSLContext

    from headwater.declare.workflows.workflow import Workflow
    from headwater.host.async_opening import AsyncOpening
    from headwater.host.loop_opening import LoopOpening

D = TypeVar("D", bound=Doc)
P = ParamSpec("P")
R = TypeVar("R")

Url: TypeAlias = str | PathLike[str] | None
Wake: TypeAlias = Callable[[], None] | None


class App(AppNeeds, CollectionVerb):
    """Declarations under one name: cells, documents, collections, functions, handlers and workflows.

    Declaring reads and writes nothing. `open`, `aopen` and `run` give the declarations a space to live in. The value of
    a declaration is stored in the document `app.name`.

    Args:
        name: The name of the app: printable text without `.`, `/` and `!`.

    Raises:
        NameRefusedError: HW105. The name is empty, or has characters that are not allowed.

    Example:
        ```python
        import headwater as hw

        app = hw.App("counter")
        count = app.cell("count", 0)

        with app.open("memory:"):
            count.value += 1
            print(count.value)  # 1
        ```
    """

    def __init__(self, name: str) -> None:
        if not _is_name(name):
            message = f"{name!r} is not a name for an app: printable characters without '.', '/' and '!' are expected"
            raise NameRefusedError(message, name=name)
        # The author's lines, without ours between them, if an error ends the program.
        install()
        self.name = name
        self._declared: dict[str, object] = {}
        self._functions: dict[str, Function] = {}
        self._workflows: dict[str, Workflow] = {}
        self._homes: list[Opening] = []  # open now, in the order they were opened
        self._lock = machine().lock()

    def __repr__(self) -> str:
        return f"<App {self.name}: {len(self._declared)} declared, open in {len(self._homes)} spaces>"

    # -- declaring -----------------------------------------------------------------------------------------

    @property
    def owner(self) -> App:
        """The app that owns these declarations: this one."""
        return self

    @property
    def prefix(self) -> str:
        """The prefix of the names of its documents: the name of the app and a dot."""
        return f"{self.name}."

    @property
    def declared(self) -> Mapping[str, object]:
        """All declarations, by name."""
        return self._declared

    def _declared_functions(self) -> Mapping[str, Function]:
        return self._functions

    def _check_async(self, name: str) -> None:
        if any(isinstance(home, PlainOpening) for home in list(self._homes)):  # open already, in plain code
            raise self._needs_loop(name)

    def workflow(
        self,
        name: str,
        *,
        on_poison: OnPoison = "block",
        keep_runs: int | None = KEEP_RUNS,
        version: str | int = "",
    ) -> Workflow:
        """Declare a workflow: producers poll, topics queue events, consumers act, each effect once.

        Args:
            name: The name, unique in the app.
            on_poison: What an event that fails does to those behind it. `"block"`: they wait. `"park"`: the failed
                event is set aside and the others go on.
            keep_runs: How many finished runs are kept, the newest ones. None keeps all.
            version: A version of the code. Change it for a change that the text of the handlers does not show.

        Returns:
            The workflow, with the decorators for its parts.

        Raises:
            DeclarationError: HW110. The name is already declared, or an option is wrong.

        Example:
            ```python
            import headwater as hw

            app = hw.App("mail")
            flow = app.workflow("welcome")
            signups = flow.topic("signups", str)
            ```
        """
        where = f"app.workflow({name!r})"
        declare = workflow_parts().declare
        made = declare(self, name, self._id(name), on_poison=on_poison, keep_runs=keep_runs, version=version)
        self._declare(name, made, where)
        self._workflows[name] = made
        return made

    def _declare(self, name: str, thing: object, where: str) -> None:
        builder = CURRENT_BUILDER.get()
        if builder is not None and isinstance(builder, Declarer) and getattr(builder.owner, "owner", None) is self:
            verb = where.replace("app.", "p.", 1).partition("(")[0].partition(" ")[0]
            message = f"{where}: app {self.name!r} declares nothing while pattern {builder.name}() builds; use {verb}"
            raise DeclarationError(message, app=self.name, name=name)
        if name in self._declared and not hasattr(builtins, "__IPYTHON__"):
            message = (
                f"{where}: app {self.name!r} has {name!r} already, {described(self._declared[name])}; "
                "choose another name (functions take name=...)"
            )
            raise DeclarationError(message, app=self.name, name=name)
        self._declared[name] = thing
        replaced = self._functions.pop(name, None)
        if replaced is not None:
            for home in list(self._homes):
                home.drop(replaced)

    def _start(self, name: str, function: Function) -> None:
        """From now on; also where the app is open already, as in a notebook."""
        self._functions[name] = function
        for home in list(self._homes):
            function.register(home)
            if isinstance(function, Handler):
                home.resume_events()
            home.runtime.catch_up()

    def _start_collection(self, made: Collection[Any]) -> None:
        """Also where the app is open already, as in a notebook."""
        for home in list(self._homes):
            declare_collections(home, [made.declaration()])

    # -- opening -------------------------------------------------------------------------------------------

    def open(
        self,
        url: str | PathLike[str] | None = None,
        *,
        space: str | None = None,
        actor: str | None = None,
        branch: str = MAIN,
        durability: Durability = "full",
        create: bool = True,
        demand: DemandPolicy = "lazy",
        on_error: OnError | ErrorMode | None = None,
        on_console: OnConsole | None = None,
        keep_failed: int = FAILED_MAX,
        force: bool = False,
        token: str | None = None,
        key: str | PathLike[str] | None = None,
        local: str | PathLike[str] | None = None,
        tls: SSLContext | None = None,
        resolve: Where | None = None,
        retain: Mapping[str, Duration] | None = None,
        inspect: Inspect = "owner",
        apart: bool = False,
    ) -> Space:
        """Open a space for this app, from plain code.

        Use it in a `with` statement; in an event loop, `aopen`. Sinks run at once, and when what they read changes.

        Args:
            url: The space: `x.db`, `data/` and `space=`, `memory:`, `postgresql://HOST/DATABASE` and `space=`, or
                `ws://HOST/SPACE`; else `HEADWATER_URL`, then `headwater.toml`, then the only `*.db` file of the folder.
            space: The name of the space in a folder.
            actor: The user that the program acts for. Cells of the scopes `"user"` and `"session"` belong to this user.
            branch: The branch of the space.
            durability: `"full"`: a power cut loses no confirmed commit. `"normal"`: it may lose the newest ones.
            create: Whether a missing space is created.
            demand: `"lazy"`: a computed function runs while it is observed. `"eager"`: it also runs while it is not.
            on_error: What happens to exceptions in functions that run by themselves. `"raise"`, the default: log them,
                and raise the first when the space closes. `"log"`: only log them. A function: it is called with each.
            on_console: A function that gets each line that functions print or log, and returns what is forwarded.
            keep_failed: How many failed events are kept.
            force: Deploy workflows although waiting events would be skipped, because no handler consumes them.
            token: The token for a server. Without it, `HEADWATER_TOKEN`; a server of the same user needs none.
            key: A file with a private key, instead of a token.
            local: A folder for undecided commits and documents, to start while the server is offline.
            tls: A TLS context, for certificates that the system does not know.
            resolve: Where spaces that links name are looked for: a folder, or a function from an id to a file.
            retain: How long receipts and sessions are kept: `{"receipts": "90d", "sessions": "90d"}`.
            inspect: Whether owners may ask at the server what the functions of this program do: `"owner"` or `"off"`.
            apart: Whether its transactions are not shared with other apps that are open there in this thread.

        Returns:
            The open space.

        Raises:
            SpaceHeldError: HW202. Another process has this file open.
            NotFoundError: HW106. The space does not exist, and `create` is False.
            MigrationError: HW206. A newer version of Headwater has written the file.
            CorruptError: HW205. The file is damaged.
            DeclarationError: HW110. A function of the app is async: use `aopen`.
            AccessError: HW403. The server does not have the space, or the token does not allow it.

        Example:
            ```python
            import headwater as hw

            app = hw.App("todo")
            items = app.cell("items", type=list[str], default=[])

            with app.open("memory:") as space:
                items.append("tea")
                space.sync()
            ```
        """
        options = Options(
            space=space,
            actor=actor,
            branch=branch,
            durability=durability,
            create=create,
            demand=demand,
            on_error="raise" if on_error is None else on_error,
            on_console=on_console,
            keep_failed=keep_failed,
            force=force,
            token=token,
            key=key,
            local=local,
            tls=tls,
            resolve=resolve,
            retain=retain,
            inspect=inspect,
            apart=apart,
        )
        return self.open_with(url, options)

    def open_with(self, url: Url, options: Options, wake: Wake = None) -> Space:
        """As `open`, with all options in one record."""
        return Space(self.opened(url, options, wake))

    def opened(self, url: Url, options: Options, wake: Wake = None) -> PlainOpening:
        """As `open_with`, for callers inside the package."""
        opened = self.made_opening(url, options, wake)
        try:
            begin([(self, opened)])
            opened.resume_events()
            opened.catch_up()
        except BaseException:
            opened.abandon()
            raise
        return opened

    def made_opening(self, url: Url, options: Options, wake: Wake = None, *, alone: bool = False) -> PlainOpening:
        """Make an opening for plain code, without functions; `alone`: none will be registered, so none needs a loop."""
        if not alone:
            self._check_plain()
        place = place_of(url, options)
        close_former(self.name, place)
        lease, parts = self._share(url, options), host_parts(OpeningInspection)
        opened = lease.passed_to(lambda: joined_opening(lease, self, options, parts, wake))
        opened.opened_as = (self.name, place)
        return opened

    def opening(self, url: str | PathLike[str] | None = None, **options: Unpack[OpenOptions]) -> AppOpening:
        """Where this app is to be opened, for `hw.together`, which opens several apps at once.

        Args:
            url: The space, as in `open`.
            options: The options of `open`.

        Returns:
            A record of both. Nothing is opened yet.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            with hw.together(app.opening("memory:")) as (space,):
                print(space.closed)  # False
            ```
        """
        return AppOpening(self, url, options_for_opening(options))

    def aopen(
        self,
        url: str | PathLike[str] | None = None,
        *,
        space: str | None = None,
        actor: str | None = None,
        branch: str = MAIN,
        durability: Durability = "full",
        create: bool = True,
        demand: DemandPolicy = "lazy",
        on_error: OnError | ErrorMode | None = None,
        on_console: OnConsole | None = None,
        keep_failed: int = FAILED_MAX,
        force: bool = False,
        token: str | None = None,
        key: str | PathLike[str] | None = None,
        local: str | PathLike[str] | None = None,
        tls: SSLContext | None = None,
        resolve: Where | None = None,
        retain: Mapping[str, Duration] | None = None,
        inspect: Inspect = "owner",
        apart: bool = False,
    ) -> AsyncOpening:
        """Open a space for this app, from code in an event loop.

        Use it as `async with app.aopen(url) as space:`. Without a block, as in a notebook: `space = await
        app.aopen(url)`, and `await space.close()` at the end.

        Args:
            url: The space, as in `open`.
            space: The name of the space in a folder.
            actor: The user that the program acts for.
            branch: The branch of the space.
            durability: `"full"` or `"normal"`, as in `open`.
            create: Whether a missing space is created.
            demand: `"lazy"` or `"eager"`, as in `open`.
            on_error: `"raise"`, `"log"` or a function, as in `open`.
            on_console: A function that gets each line that functions print or log.
            keep_failed: How many failed events are kept.
            force: Deploy workflows although waiting events would be skipped.
            token: The token for a server.
            key: A file with a private key, instead of a token.
            local: A folder for undecided commits and documents, to start while the server is offline.
            tls: A TLS context, for certificates that the system does not know.
            resolve: Where spaces that links name are looked for: a folder, or a function from an id to a file.
            retain: How long receipts and sessions are kept: `{"receipts": "90d", "sessions": "90d"}`.
            inspect: Whether owners may ask at the server what the functions of this program do: `"owner"` or `"off"`.
            apart: Whether the opening is apart from other apps at the same space, as in `open`.

        Returns:
            An opening: enter it with `async with`, or await it.

        Raises:
            SpaceHeldError: HW202. Another process has this file open.
            NotFoundError: HW106. The space does not exist, and `create` is False.
            CorruptError: HW205. The file is damaged.
            AccessError: HW403. The server does not have the space, or the token does not allow it.

        Example:
            ```python
            import asyncio
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 0)


            async def main() -> None:
                async with app.aopen("memory:"):
                    count.increment()
                    print(count.value)  # 1


            asyncio.run(main())
            ```
        """
        options = Options(
            space=space,
            actor=actor,
            branch=branch,
            durability=durability,
            create=create,
            demand=demand,
            on_error="raise" if on_error is None else on_error,
            on_console=on_console,
            keep_failed=keep_failed,
            force=force,
            token=token,
            key=key,
            local=local,
            tls=tls,
            resolve=resolve,
            retain=retain,
            inspect=inspect,
            apart=apart,
        )
        return self.aopen_with(url, options)

    def aopen_with(self, url: Url, options: Options, kind: type[LoopOpening] | None = None) -> AsyncOpening:
        """As `aopen`, with all options in one record."""
        from headwater.host.async_opening import AsyncOpening  # noqa: PLC0415  # plain programs need not load asyncio

        share, place = partial(self._share, url, options), partial(place_of, url, options)
        return AsyncOpening(self, options, host_parts(OpeningInspection), share=share, place=place, kind=kind)

    def run(
        self,
        url: str | PathLike[str] | None = None,
        *,
        space: str | None = None,
        actor: str | None = None,
        branch: str = MAIN,
        durability: Durability = "full",
        demand: DemandPolicy = "lazy",
        on_error: OnError | ErrorMode | None = None,
        on_console: OnConsole | None = None,
        keep_failed: int = FAILED_MAX,
        force: bool = False,
        token: str | None = None,
        key: str | PathLike[str] | None = None,
        local: str | PathLike[str] | None = None,
        tls: SSLContext | None = None,
        resolve: Where | None = None,
        retain: Mapping[str, Duration] | None = None,
        inspect: Inspect = "owner",
    ) -> None:
        """Open a space and keep it open until Ctrl-C or SIGTERM ends the process.

        The workflows of the app are executed too. The space is always created if it is missing.

        Args:
            url: The space, as in `open`.
            space: The name of the space in a folder.
            actor: The user that the program acts for.
            branch: The branch of the space.
            durability: `"full"` or `"normal"`, as in `open`.
            demand: `"lazy"` or `"eager"`, as in `open`.
            on_error: `"raise"`, `"log"` or a function, as in `open`. By default, exceptions are logged.
            on_console: A function that gets each line that functions print or log.
            keep_failed: How many failed events are kept.
            force: Deploy workflows although waiting events would be skipped.
            token: The token for a server.
            key: A file with a private key, instead of a token.
            local: A folder for undecided commits and documents, to start while the server is offline.
            tls: A TLS context, for certificates that the system does not know.
            resolve: Where spaces that links name are looked for: a folder, or a function from an id to a file.
            retain: How long receipts and sessions are kept: `{"receipts": "90d", "sessions": "90d"}`.
            inspect: Whether owners may ask at the server what the functions of this program do: `"owner"` or `"off"`.

        Raises:
            SpaceHeldError: HW202. Another process has this file open.
            DeclarationError: HW110. A function of the app is async: use `aopen`.
        """
        options = Options(
            space=space,
            actor=actor,
            branch=branch,
            durability=durability,
            demand=demand,
            on_error=on_error,
            on_console=on_console,
            keep_failed=keep_failed,
            force=force,
            token=token,
            key=key,
            local=local,
            tls=tls,
            resolve=resolve,
            retain=retain,
            inspect=inspect,
        )
        with lasting(), Stay() as stay, self.open_with(url, options, stay.wake) as opened:
            if self._workflows:
                opened.workflows.start()
            opening = opened._opening
            while stay.wait(opening.wake_in()):
                opening.settle()

    def _share(self, url: str | PathLike[str] | None, options: Options) -> Lease:
        if options.lease is not None:
            return options.lease()
        place = url_text(url)
        if str(place).lower().startswith(("ws:", "wss:")):
            from headwater.client.remote_opening import remote_lease  # noqa: PLC0415  # most programs have no server

            return remote_lease(place, self.name, options)
        if any(each is not None for each in (options.token, options.key, options.local, options.tls)):
            raise UsageError(f"token=, key=, local= and tls= are for servers (ws://HOST:PORT/SPACE); {place} is none")
        return share_space(place, options.space, create=options.create, durability=options.durability)

    def register_in(self, opening: Opening) -> None:
        """Everything declared so far lives there from now on. Nothing runs."""
        with self._lock:
            self._homes.append(opening)
        opening.on_close(lambda: self._end(opening))
        for function in list(self._functions.values()):
            function.register(opening)

    @property
    def has_collections(self) -> bool:
        """Whether the app declares collections, whose indexes may have to be built when it is opened."""
        return any(isinstance(each, Collection) for each in self._declared.values())

    def declare_in(self, opening: Opening) -> None:
        """Declare the collections, and build indexes that are new."""
        found = [each.declaration() for each in self._declared.values() if isinstance(each, Collection)]
        declare_collections(opening, found)

    def restore_in(self, opening: Opening) -> None:
        """Restore earlier runs, and deploy the workflows. Nothing runs."""
        opening.restorer.take_over(self.name, self._functions)
        if self._workflows and opening.is_main:
            for flow in self._workflows.values():
                # All of them are checked before any of them is changed.
                flow.check()
            for flow in self._workflows.values():
                workflow_parts().deploy(opening, flow, force=opening.forces)

    def note_types_in(self, opening: Opening) -> None:
        """Store the types of the declarations."""
        keep_types(opening, self.name, self._declared)

    def _end(self, opened: Opening) -> None:
        with self._lock:
            self._homes = [each for each in self._homes if each is not opened]

    def sole_space(self, what: str | Addressed) -> Opening:
        """The opening that a declaration of this app means in code without an open space around it."""
        homes = list(self._homes)
        if len(homes) == 1:
            return homes[0]
        name = name_of(what).removeprefix(f"{self.name}.")
        if not homes:
            # In code of an open space, it is another app that is not open.
            app = "" if CONTEXT.get() is None else f" of app {self.name!r}"
            message = f"{name}{app} has no open space here; wrap the code in `with app.open(...)`"
            raise NotOpen(message, app=self.name, name=name)
        spaces = ", ".join(repr(home.name) for home in homes)
        message = (
            f"{name} could mean any of {len(homes)} openings of app {self.name!r} ({spaces}), and none of them is "
            "around this code; use it inside the `with` block that is meant, or through space.cell(...)"
        )
        raise AmbiguousError(message, app=self.name, name=name)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isprintable() and bool(name.strip()) and not set("./!") & set(name)


__all__ = ["App", "Computed", "Handler", "Sink", "Stream"]
