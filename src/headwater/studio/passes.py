"""Follow a change: passes as they were recorded, from the write through the functions that it woke.

Recording is off until a person switches it on, and off by itself after ten minutes: it slows the program by about a
fifth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.errors import NotFoundError
from headwater.machine import machine
from headwater.studio import answers, questions
from headwater.studio.limits import PAGE_MAX

PASSES: Final = 200
"""Passes that are kept: the newest."""

STEPS: Final = 20_000
"""Steps of all passes together: 2 to 4 MiB."""

PASS_STEPS: Final = 2000
"""Steps of one pass that are kept. The others are counted."""

RECORD_S: Final = 600.0
"""Seconds after which a recording ends by itself."""

_KINDS: Final = frozenset(
    {"invalidated", "started", "finished", "failed", "gated", "taken-back", "dispatched", "ended"}
)


class _Pass:
    """A pass while it is recorded, and afterwards."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.steps: list[dict[str, Any]] = []
        self.left_out = 0

    @property
    def begin_ms(self) -> float:
        return float(self.steps[0]["at_ms"])

    @property
    def end_ms(self) -> float:
        return float(self.steps[-1]["at_ms"])


class Recording:
    """The recorded passes of one space. `follow` begins to call with each record, and returns what ends it."""

    def __init__(self, follow: Callable[[Callable[[Mapping[str, Any]], None]], Callable[[], None]]) -> None:
        self._follow = follow
        self._lock = machine().lock()
        self._passes: deque[_Pass] = deque()
        self._current: _Pass | None = None
        self._count = 0
        self._steps = 0
        self._end: Callable[[], None] | None = None
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        """Whether it is recording now. Ends it if its time is over."""
        self.end_in_time()
        return self._end is not None

    @property
    def left_s(self) -> float | None:
        """Seconds until it ends; None if it is not recording."""
        return None if self._end is None else max(0.0, self._until - machine().monotonic())

    def end_in_time(self) -> None:
        """End the recording if its time is over."""
        if self._end is not None and machine().monotonic() >= self._until:
            self.stop()

    def start(self) -> None:
        """Record for ten minutes from now."""
        self._until = machine().monotonic() + RECORD_S
        if self._end is None:
            self._end = self._follow(self.add)

    def stop(self) -> None:
        """End the recording; what was recorded stays."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def add(self, record: Mapping[str, Any]) -> None:
        """One record of the trace. Called in another thread."""
        kind = record.get("type", "")
        with self._lock:
            if kind == "pass":
                self._finish()
            elif kind in _KINDS:
                self._take(dict(record))

    def _take(self, record: dict[str, Any]) -> None:
        if self._current is None:
            self._count += 1
            self._current = _Pass(self._count)
        if len(self._current.steps) >= PASS_STEPS:
            self._current.left_out += 1
        else:
            self._current.steps.append(record)

    def _finish(self) -> None:
        done, self._current = self._current, None
        if done is None or not any(step["type"] in ("started", "dispatched") for step in done.steps):
            return
        self._passes.append(done)
        self._steps += len(done.steps)
        while len(self._passes) > PASSES or (self._steps > STEPS and len(self._passes) > 1):
            self._steps -= len(self._passes.popleft().steps)

    # -- answers -------------------------------------------------------------------------------------------

    def listed(self, question: questions.Passes) -> answers.PassesPage:
        """One page of passes, newest first."""
        is_on = self.is_on
        with self._lock:
            found = [each for each in reversed(self._passes) if not question.before or each.number < question.before]
        page = found[: max(1, min(question.limit, PAGE_MAX))]
        left = max(0.0, self._until - machine().monotonic())
        return answers.PassesPage(
            recording=is_on,
            until_ms=machine().now_ms() + int(left * 1000) if is_on else 0,
            passes=tuple(map(_line, page)),
            next=page[-1].number if len(page) < len(found) else 0,
        )

    def shown(
        self, question: questions.PassQuestion, names: Mapping[str, str], boxes: Mapping[str, str]
    ) -> answers.PassView:
        """One pass, step by step. `names`, `boxes`: of each node. Raises NotFoundError."""
        with self._lock:
            found = next((each for each in self._passes if each.number == question.number), None)
        if found is None:
            message = f"pass {question.number} is not recorded (any more); the newest {PASSES} are kept"
            raise NotFoundError(message, number=question.number)
        steps = tuple(_step(record, names, boxes) for record in found.steps)
        return answers.PassView(line=_line(found), steps=steps, left_out=found.left_out)


def _line(found: _Pass) -> answers.PassLine:
    runs = sum(step["type"] in ("started", "dispatched") for step in found.steps)
    causes = tuple(
        dict.fromkeys(str(step["cause"]) for step in found.steps if step.get("cause") and not step.get("by"))
    )
    what = ", ".join(causes[:3]) or str(found.steps[0].get("node", "")).partition("#")[0]
    stopped = sum(step["type"] == "finished" and not step.get("changed", True) for step in found.steps)
    failed = sum(step["type"] == "failed" for step in found.steps)
    sentence = f"{what}: {runs} {'run' if runs == 1 else 'runs'}"
    sentence += f", {stopped} with the same result" if stopped else ""
    sentence += f", {failed} failed" if failed else ""
    took = round(max(found.end_ms - found.begin_ms, 0.0), 3)
    return answers.PassLine(
        number=found.number, at_ms=found.begin_ms, took_ms=took, runs=runs, causes=causes[:20], sentence=sentence
    )


_STEP_KINDS: Final[dict[str, Any]] = {"taken-back": "rejected", "dispatched": "event", "ended": "event"}


def _step(record: dict[str, Any], names: Mapping[str, str], boxes: Mapping[str, str]) -> answers.Step:
    node = str(record.get("node", ""))
    name = names.get(node, node.partition("#")[0])
    kind = str(record["type"])
    causes = tuple(map(str, record.get("causes", ()))) or ((str(record["cause"]),) if record.get("cause") else ())
    return answers.Step(
        kind=_STEP_KINDS.get(kind, kind),
        at_ms=float(record["at_ms"]),
        node=node,
        box=boxes.get(node, ""),
        name=name,
        sentence=_sentence(kind, record, name, node, causes),
        causes=causes[:20],
        took_ms=float(record.get("ms", 0.0)),
        changed=record.get("changed"),
    )


def _sentence(  # noqa: PLR0911  # one for each kind
    kind: str, record: dict[str, Any], name: str, node: str, causes: tuple[str, ...]
) -> tuple[answers.Part, ...]:
    me = answers.Part(text=name, kind="function", target=node)

    def said(text: str, *more: answers.Part) -> tuple[answers.Part, ...]:
        return (me, answers.Part(text=text), *more)

    cause = [answers.Part(text=each, kind="document", target=each.partition("/")[0]) for each in causes[:1]]
    match kind:
        case "invalidated":
            return said(" has to run: it has read ", *cause, answers.Part(text=", which changed"))
        case "started":
            return said(" runs because of ", *cause) if cause else said(" runs")
        case "finished" if record.get("changed"):
            return said(" ran, and its result changed")
        case "finished":
            return said(" ran, same result: the change stops here")
        case "failed":
            return said(f" failed: {record.get('error', '')}")
        case "gated":
            return said(f" waits: {record.get('reason', '')}")
        case "taken-back":
            return said(f" is repeated: {record.get('reason', '')}")
        case "dispatched":
            return said(" handles ", answers.Part(text=str(record["event"]), kind="event", target=str(record["event"])))
        case _:
            return said(f": the event is {record.get('state', '')}")
