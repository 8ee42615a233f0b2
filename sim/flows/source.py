"""Python source of a generated program. It is compiled as a module of its own, so that it has a text, as real ones do.

Each function of the program asks `hands` how this call goes, and does it: reads, effects, publications, exceptions.
"""

from __future__ import annotations

import linecache
import sys
from types import ModuleType
from typing import Any

from sim.flows.parts import ConsumerPart, FlowApp, FlowPart, ProducerPart


def source_of(app: FlowApp, revision: int) -> str:
    """The program, as a person would write it."""
    lines = [
        "import headwater as hw",
        f"REVISION = 'v{revision}'",
        "app = hw.App('sim')",
        "total = app.cell('total', 0)",
    ]
    lines += ["published = app.cell('published', 0)"]
    for part in app.flows:
        lines += _flow(part)
    for consumer in app.consumers:
        lines += [f"{consumer.name} = {consumer.flow}.topic('{consumer.name}', int)"]
        if consumer.second:
            lines += [f"{consumer.name}x = {consumer.flow}.topic('{consumer.name}x', int)"]
    for producer in app.producers:
        lines += _producer(producer)
    for consumer in app.consumers:
        lines += _consumer(consumer)
    return "\n".join(lines) + "\n"


def _flow(part: FlowPart) -> list[str]:
    kept = "" if part.keep_runs is None else f", keep_runs={part.keep_runs}"
    return [f"{part.name} = app.workflow('{part.name}', on_poison='{part.on_poison}'{kept})"]


def _options(tries: int, backoff_s: int, timeout_s: int) -> str:
    timeout = f", timeout='{timeout_s}s'" if timeout_s else ""
    return f"retry=hw.Retry({tries}, backoff='{backoff_s}s', jitter=0.2){timeout}"


def _words(*, is_async: bool) -> tuple[str, str]:
    return ("async def", "await hands.wait") if is_async else ("def", "hands.go")


def _producer(part: ProducerPart) -> list[str]:
    when = f"cron='{part.cron}'" if part.cron else f"every='{part.every_s}s'"
    word, go = _words(is_async=part.is_async)
    return [
        f"@{part.flow}.producer({when}, {_options(part.tries, 10, part.timeout_s)})",
        f"{word} {part.name}(run: hw.Run, seen: int = 0) -> int:",
        f"    count = {go}(hands.produce('{part.name}', run))",
        "    for number in range(seen, count):",
        f"        {part.target}.publish(number, id=f'{part.name}-{{number}}', title=f'Item {{number}}')",
        "    return max(seen, count)",
    ]


def _consumer(part: ConsumerPart) -> list[str]:
    name, kind = part.name, part.name.upper()
    word, go = _words(is_async=part.is_async)
    topics = f"{name}, {name}x" if part.second else name
    by_call = part.effect.startswith("call")
    uses = f", uses={name}_out" if by_call else ""
    lines: list[str] = []
    if by_call:
        lines += [
            f"{name}_out = {part.flow}.connector('{name}_out')",
            f"@{name}_out.mutation",
            f"{word} {name}_send(data: list[str], key: str) -> int:",
            f"    return {go}(hands.act('{name}', key, REVISION, data))",
        ]
    if part.effect == "call":
        lines += [
            f"@{name}_send.reconcile",
            f"{word} {name}_sent(data: list[str], key: str) -> hw.Answer[int]:",
            f"    return {go}(hands.look_up('{name}', key))",
        ]
    options = f"{_options(part.tries, part.backoff_s, part.timeout_s)}, peek={part.peek}{uses}"
    lines += [
        f"@{part.flow}.consumer({topics}, name='{name}', {options})",
        f"class {kind}(hw.Consumer[int, list[str], int]):",
        f"    {word} prepare(self, pending):",
        f"        taken, data, wake = {go}(hands.prepare('{name}', self.run, REVISION, pending))",
        "        if not taken:",
        "            return hw.Plan.idle(wake=wake)",
        f"        return hw.Plan(data, take=taken, title=' '.join(data), ask={part.ask}, wake=wake)",
    ]
    if part.effect in ("own", "blind"):
        lines += [
            f"    {word} mutate(self, run, data):",
            f"        return {go}(hands.act('{name}', run.key, REVISION, data))",
        ]
    if part.effect == "own":
        lines += [
            f"    {word} reconcile(self, run, data):",
            f"        return {go}(hands.look_up('{name}', run.key))",
        ]
    if by_call:
        lines += [
            f"    {word} mutate(self, run, data):",
            f"        {go}(hands.naming('{name}', run))",
            f"        run.call({name}_send, data)",
        ]
    lines += [
        f"    {word} next(self, run, data, outcome):",
        f"        ids = {go}(hands.next('{name}', run, data, outcome))",
    ]
    lines += [
        line
        for target in part.targets
        for line in ("        for one in ids:", f"            {target}.publish(0, id=f'{name}.{{one}}')")
    ]
    if part.counts:
        lines += ["        if ids:", "            total.value += len(ids)"]
    return lines


def load(text: str, name: str, hands: object) -> Any:  # a module, whose names are generated
    """Compile a program as a module that `inspect.getsource` knows."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = ModuleType(name)
    module.__file__ = file
    module.__dict__["hands"] = hands
    sys.modules[name] = module
    exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102  # generated here
    return module


def unload(name: str) -> None:
    """Forget a program."""
    sys.modules.pop(name, None)
    linecache.cache.pop(f"<{name}>", None)
