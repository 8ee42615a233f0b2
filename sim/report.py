"""What a run of many worlds found: sums, failures, and the text about them."""

from __future__ import annotations

import textwrap
from collections import Counter

import msgspec

from sim import open_findings, sometimes
from sim.kinds import SMALL
from sim.plan import Violation
from sim.worker import Result

_FAILURES_SHOWN = 12


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A world that failed, as a report and the file of failing plans have it."""

    kind: str
    seed: int
    plan: str = ""
    """The digest of its plan. Empty: the world did not come to its end."""
    status: str = "failed"
    violations: tuple[Violation, ...] = ()
    text: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.seed}"

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that did not hold, the first first; the status, if the world had no end."""
        return tuple(dict.fromkeys(each.rule for each in self.violations)) or (self.status,)

    @property
    def is_open(self) -> bool:
        """Whether the finding is named in `sim/open_findings.py`."""
        return open_findings.is_open(self.name, self.rules[0])


class Slowest(msgspec.Struct, frozen=True, kw_only=True):
    """The world that took longest."""

    name: str = ""
    real_s: float = 0.0


class Report(msgspec.Struct, kw_only=True):
    """Sums over the worlds of a run. It grows by `add`."""

    first_seed: int = 0
    worlds: dict[str, int] = {}
    """By kind, small ones apart."""
    statuses: dict[str, int] = {}
    real_s: float = 0.0
    cpu_s: float = 0.0
    """Of the worlds, without the cost of forks."""
    virtual_s: float = 0.0
    switches: int = 0
    counts: dict[str, int] = {}
    sometimes: dict[str, int] = {}
    failures: list[Failure] = []
    passed: list[str] = []
    """Worlds of open findings that did not fail."""
    slowest: Slowest = Slowest()
    rss: int = 0
    """The most memory that a child had after a world, in bytes."""

    @property
    def played(self) -> int:
        return sum(self.worlds.values())

    @property
    def by_bare_kind(self) -> dict[str, int]:
        """Worlds by kind, small ones counted with the others."""
        found: Counter[str] = Counter()
        for kind, count in self.worlds.items():
            found[kind.removeprefix(SMALL)] += count
        return dict(found)

    def add(self, result: Result) -> Failure | None:
        """Count a world. Returns the failure, if it is one."""
        outcome = result.outcome
        _increase(self.worlds, result.kind)
        _increase(self.statuses, result.status)
        self.cpu_s += result.cpu_s
        self.virtual_s += outcome.virtual_s
        self.switches += outcome.switches
        self.rss = max(self.rss, result.rss)
        for name, count in outcome.counts.items():
            _increase(self.counts, name, count)
        for name, count in outcome.sometimes.items():
            _increase(self.sometimes, name, count)
        if result.real_s > self.slowest.real_s:
            self.slowest = Slowest(name=f"{result.kind}:{result.seed}", real_s=result.real_s)
        if not result.is_failure:
            if open_findings.is_named(name := f"{result.kind}:{result.seed}"):
                self.passed.append(name)
            return None
        failure = Failure(
            kind=result.kind,
            seed=result.seed,
            plan=outcome.plan,
            status=result.status,
            violations=outcome.violations,
            text=result.text,
        )
        self.failures.append(failure)
        return failure

    @property
    def new_failures(self) -> list[Failure]:
        """Those that are not named as open findings."""
        return [failure for failure in self.failures if not failure.is_open]

    def never(self) -> list[str]:
        """The declared situations of the kinds played that did not occur."""
        return [each.name for each in sometimes.declared(self.by_bare_kind) if not self.sometimes.get(each.name)]

    def summary(self) -> str:
        """For a person."""
        parts = [self._figures(), self._table()]
        if self.failures:
            parts.append(self._failed())
        if self.passed:
            parts.append(f"passed, to be removed from sim/open_findings.py: {', '.join(sorted(self.passed))}")
        return "\n\n".join(part for part in parts if part)

    def _figures(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.worlds.items())) or "none"
        real = max(self.real_s, 1e-9)
        rows = {
            "worlds": f"{self.played} in {real:.1f} s, {self.played / real:.1f} a second; first seed {self.first_seed}",
            "kinds": kinds,
            "virtual time": f"{self.virtual_s / 3600:.1f} h, {self.virtual_s / real:.0f} times real time",
            "hand-overs": f"{self.switches}",
            "faults": _listed(Counter({name[6:]: n for name, n in self.counts.items() if name.startswith("fault ")})),
            "counts": _listed(Counter({name: n for name, n in self.counts.items() if not name.startswith("fault ")})),
            "cpu": f"{self.cpu_s / max(self.played, 1):.2f} s for each world",
            "slowest": f"{self.slowest.name}, {self.slowest.real_s:.1f} s; memory at most {self.rss >> 20} MB",
            "result": ", ".join(f"{name} {count}" for name, count in sorted(self.statuses.items())) or "nothing played",
        }
        return "\n".join(_row(name, text) for name, text in rows.items() if text)

    def _table(self) -> str:
        worlds = self.by_bare_kind
        lines = ["sometimes"] if sometimes.declared(worlds) or self.sometimes else []
        rare = {each.name for each in sometimes.too_rare(self.sometimes, worlds)}
        for each in sometimes.declared(worlds):
            found = self.sometimes.get(each.name, 0)
            note = "  NEVER" if not found else "  rare" if each.name in rare else ""
            lines.append(f"  {found:7}  {each.kind:9} {each.name}{note}")
        lines += [f"  {self.sometimes[name]:7}  undeclared {name}" for name in sometimes.undeclared(self.sometimes)]
        return "\n".join(lines)

    def _failed(self) -> str:
        new = self.new_failures
        rules = Counter(failure.rules[0] for failure in new)
        lines = [f"FAILED: {len(new)} of {self.played} worlds; {_listed(rules)}"] if new else []
        if len(new) < len(self.failures):
            known = sorted(failure.name for failure in self.failures if failure.is_open)
            lines.append(f"open findings, named in sim/open_findings.py: {', '.join(known)}")
        ordered = sorted(new, key=lambda failure: (failure.kind, failure.seed))
        for failure in ordered[:_FAILURES_SHOWN]:
            lines.append(f"  {failure.name}  ./hw sim --replay {failure.name}")
            lines += [
                f"    {each.rule} at {each.at:.3f} {each.node}: {_first(each.text)}" for each in failure.violations[:3]
            ]
            if not failure.violations:
                lines += [f"    {failure.status}: {text}" for text in [_last(failure.text)] if text]
        if len(new) > _FAILURES_SHOWN:
            lines.append(f"  and {len(new) - _FAILURES_SHOWN} more")
        return "\n".join(lines)


def _row(name: str, text: str) -> str:
    """A name and a text, which may take several lines."""
    return textwrap.fill(text, 110, initial_indent=f"{name:13} ", subsequent_indent=" " * 14, break_on_hyphens=False)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _increase(counts: dict[str, int], name: str, by: int = 1) -> None:
    counts[name] = counts.get(name, 0) + by


def _first(text: str) -> str:
    """The first line, cut to a readable length."""
    line = (text.splitlines() or [""])[0]
    return line if len(line) <= 200 else f"{line[:197]}..."


def _last(text: str) -> str:
    """The line of a traceback that names the exception; the first line of other texts."""
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    return _first(lines[-1] if lines[0].startswith("Traceback") else lines[0])
