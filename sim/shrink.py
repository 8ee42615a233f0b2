"""The smallest plan that still violates the same rule: parts are removed as long as the violation stays.

The order: faults, operations, nodes, declarations, then knobs and the schedule. Each try is a world in a forked child.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import msgspec

from sim.kinds import play_plan
from sim.plan import App, Knobs, Outcome, Plan
from sim.runner import Limits, run
from sim.worker import Result
from sim.world import progress

RUNS_MAX: Final = 60
SECONDS_MAX: Final = 60.0

_FRAME: Final = re.compile(r'^ *File "(.+?)", line \d+', re.MULTILINE)
_PRODUCT: Final = re.compile(r"[/\\]headwater[/\\](?!testing[/\\])|site-packages|<frozen")
"""Files whose exceptions are findings: those of the product, and what it uses."""

FOLDER: Final = Path(__file__).resolve().parent.parent / "tests" / "regress"


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """The result."""

    before: Plan
    plan: Plan
    rule: str
    text: str
    """Of the violation of the smallest plan."""
    runs: int
    real_s: float

    def sizes(self) -> str:
        """What became of the parts."""
        changes = [
            f"{len(old)} -> {len(new)} {what}"
            for what, old, new in (
                ("faults", self.before.faults, self.plan.faults),
                ("operations", self.before.operations, self.plan.operations),
                ("nodes", self.before.nodes, self.plan.nodes),
                ("declarations", _parts(self.before), _parts(self.plan)),
            )
            if old
        ]
        return f"shrunk: {', '.join(changes)}; {self.runs} runs, {self.real_s:.1f} s"


class _Budget:
    """Counts tries, and remembers what the last one found."""

    def __init__(self, seed: int, rule: str, jobs: int, runs_max: int, seconds_max: float) -> None:
        self._seed, self._rule, self._jobs = seed, rule, jobs
        self.is_of_simulator = False
        self._runs_max, self._until = runs_max, time.monotonic() + seconds_max
        self.runs = 0
        self.texts: dict[str, str] = {}

    @property
    def is_spent(self) -> bool:
        return self.runs >= self._runs_max or time.monotonic() > self._until

    def first_failing(self, plans: Iterator[Plan]) -> Plan | None:
        """The first plan, in their order, that violates the rule."""
        while not self.is_spent:
            tried = [plan for _, plan in zip(range(self._jobs), plans, strict=False)]
            if not tried:
                return None
            self.runs += len(tried)
            for plan, result in zip(tried, play_plans(tried, self._seed, self._jobs), strict=True):
                if is_of_simulator(result) and not self.is_of_simulator:
                    continue  # without what is removed, the plan makes no sense
                if (text := violation_of(result, self._rule)) is not None:
                    self.texts[plan.digest()] = text
                    return plan
        return None


def play_plans(plans: Sequence[Plan], seed: int, jobs: int) -> list[Result]:
    """Play each in a child of its own."""
    found: dict[int, Result] = {}

    def play(_: str, index: int) -> Outcome:
        return play_plan(plans[index], seed)

    def keep(result: Result) -> None:
        found[result.seed] = result

    names = [(plan.kind, index) for index, plan in enumerate(plans)]
    if not run(names, play, jobs=jobs, on_result=keep, progress=progress, limits=Limits(worlds_per_child=1)):
        raise KeyboardInterrupt
    return [found[index] for index in range(len(plans))]


def violation_of(result: Result, rule: str) -> str | None:
    """The text, if the world violates the rule. A world without an end violates its status."""
    if result.status == rule:
        return result.text
    return next((each.text for each in result.outcome.violations if each.rule == rule), None)


def is_of_simulator(result: Result) -> bool:
    """Whether the world ended by an exception in the code of the simulator, which is no finding."""
    texts = [each.text for each in result.outcome.violations if each.rule == "T"]
    for text in [result.text, *texts] if result.status == "error" else texts:
        frames = _FRAME.findall(text)
        if frames and not _PRODUCT.search(frames[-1]):
            return True
    return False


def rule_of(result: Result) -> str | None:
    """The first rule that the world violates."""
    if result.outcome.violations:
        return result.outcome.violations[0].rule
    return None if result.status == "ok" else result.status


def shrink(
    plan: Plan, seed: int, rule: str, *, jobs: int = 2, runs_max: int = RUNS_MAX, seconds_max: float = SECONDS_MAX
) -> Shrunk:
    """Remove what the violation of this rule does not need."""
    begin = time.monotonic()
    budget = _Budget(seed, rule, jobs, runs_max, seconds_max)
    budget.is_of_simulator = is_of_simulator(play_plans([plan], seed, 1)[0])
    smallest = plan
    while not budget.is_spent:
        before = smallest
        for count_of, without in _DIMENSIONS:
            smallest = _fewer(smallest, count_of, without, budget)
        smallest = _calmer(smallest, budget)
        if smallest == before:
            break
    return Shrunk(
        before=plan,
        plan=smallest,
        rule=rule,
        text=budget.texts.get(smallest.digest(), ""),
        runs=budget.runs,
        real_s=time.monotonic() - begin,
    )


# --- what can be removed -------------------------------------------------------------------------------------------


def _parts(plan: Plan) -> tuple[object, ...]:
    found: tuple[object, ...] = getattr(plan.app, "parts", ())
    return found


def _without_faults(plan: Plan, gone: frozenset[int]) -> Plan:
    return msgspec.structs.replace(plan, faults=_rest(plan.faults, gone))


def _without_operations(plan: Plan, gone: frozenset[int]) -> Plan:
    return msgspec.structs.replace(plan, operations=_rest(plan.operations, gone))


def _without_nodes(plan: Plan, gone: frozenset[int]) -> Plan:
    """Operations and faults of a node go with it."""
    names = {getattr(plan.nodes[index], "name", None) for index in gone} - {None}
    return msgspec.structs.replace(
        plan,
        nodes=_rest(plan.nodes, gone),
        operations=tuple(each for each in plan.operations if getattr(each, "node", None) not in names),
        faults=tuple(each for each in plan.faults if getattr(each, "node", None) not in names),
    )


def _without_parts(plan: Plan, gone: frozenset[int]) -> Plan:
    return msgspec.structs.replace(plan, app=cast("App", plan.app).without(gone))


def _rest(items: Sequence[object], gone: frozenset[int]) -> tuple[object, ...]:
    return tuple(each for index, each in enumerate(items) if index not in gone)


_DIMENSIONS: Final[tuple[tuple[Callable[[Plan], Sequence[object]], Callable[[Plan, frozenset[int]], Plan]], ...]] = (
    (lambda plan: plan.faults, _without_faults),
    (lambda plan: plan.operations, _without_operations),
    (lambda plan: plan.nodes, _without_nodes),
    (_parts, _without_parts),
)


def _fewer(
    plan: Plan,
    items: Callable[[Plan], Sequence[object]],
    without: Callable[[Plan, frozenset[int]], Plan],
    budget: _Budget,
) -> Plan:
    """Remove as many items as can be: all, then halves, quarters and so on, down to one by one."""
    size = len(items(plan))
    while size and not budget.is_spent:
        count = len(items(plan))
        chunks = (frozenset(range(begin, min(begin + size, count))) for begin in range(0, count, size))
        found = budget.first_failing(without(plan, chunk) for chunk in chunks)
        if found is not None:
            plan = found
            size = min(size, len(items(plan)))
        else:
            size = size // 2
    return plan


def _calmer(plan: Plan, budget: _Budget) -> Plan:
    """Knobs as the product has them, then a schedule with as few switches as can be."""
    for name in Knobs.__struct_fields__:
        default = getattr(Knobs(), name)
        if getattr(plan.knobs, name) != default:
            knobs = msgspec.structs.replace(plan.knobs, **{name: default})
            found = budget.first_failing(iter([msgspec.structs.replace(plan, knobs=knobs)]))
            plan = found or plan
    return plan


# --- the regression test -------------------------------------------------------------------------------------------


def source_of(shrunk: Shrunk, kind: str, seed: int) -> str:
    """A test that plays the plan, as Python."""
    names = _names({type(each) for each in _structs(shrunk.plan)})
    imports: dict[str, set[str]] = {"sim.apart": {"play"}}
    for kept, name in names.items():
        given = kept.__name__ if name == kept.__name__ else f"{kept.__name__} as {name}"
        imports.setdefault(kept.__module__, set()).add(given)
    lines = [f"from {module} import {', '.join(sorted(given))}" for module, given in sorted(imports.items())]
    first = (shrunk.text.splitlines() or [""])[0].replace("\\", "/").replace('"', "'")[:200]
    text = f'''"""Found by `./hw sim` as {kind}:{seed}: rule {shrunk.rule} did not hold.

{first}
"""

{chr(10).join(lines)}

PLAN = {_text(shrunk.plan, names)}


def test_{_identifier(kind)}_{seed}_violates_no_rule() -> None:
    assert play(PLAN, seed={seed}).violations == ()
'''
    return formatted(text)


def write_test(shrunk: Shrunk, kind: str, seed: int, folder: Path = FOLDER) -> Path:
    """Write it to the folder of regressions."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"test_{_identifier(kind)}_{seed}.py"
    path.write_text(source_of(shrunk, kind, seed), encoding="utf-8")
    return path


def formatted(source: str) -> str:
    """As the formatter of the project writes it; as it is, where there is no formatter."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "test_plan.py", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False, cwd=FOLDER.parent)
    return done.stdout if done.returncode == 0 and done.stdout else source


def _identifier(kind: str) -> str:
    return kind.replace("-", "_").replace(".", "_")


def _names(classes: Collection[type]) -> dict[type, str]:
    """A name for each class. Two modules may have classes of one name."""
    count = Counter(each.__name__ for each in classes)
    return {
        each: each.__name__ if count[each.__name__] == 1 else each.__module__.rpartition(".")[2].title() + each.__name__
        for each in classes
    }


def _text(value: object, names: Mapping[type, str]) -> str:
    """A value as Python, without the fields that have their defaults."""
    if isinstance(value, msgspec.Struct):
        fields = {each.name: each for each in msgspec.structs.fields(value)}
        given = [(name, getattr(value, name)) for name in fields]
        shown = [f"{name}={_text(found, names)}" for name, found in given if not _is_default(fields[name], found)]
        return f"{names[type(value)]}({', '.join(shown)})"
    if isinstance(value, tuple):
        inner = ", ".join(_text(each, names) for each in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(k, names)}: {_text(v, names)}' for k, v in value.items())}}}"
    return repr(value)


def _is_default(field: msgspec.structs.FieldInfo, value: object) -> bool:
    return not field.required and type(field.default) is type(value) and field.default == value


def _structs(value: object) -> Iterator[msgspec.Struct]:
    """All records in a value, without the fields that have their defaults."""
    inner: Iterable[object] = ()
    if isinstance(value, msgspec.Struct):
        yield value
        given = [(field, getattr(value, field.name)) for field in msgspec.structs.fields(value)]
        inner = [found for field, found in given if not _is_default(field, found)]
    elif isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, (tuple, list, set, frozenset)):
        inner = value
    for each in inner:
        yield from _structs(each)
