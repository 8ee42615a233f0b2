"""The timeline of one world, as text: virtual time, node, what happened; then the violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sim.plan import Line, Outcome, Plan


def heading(plan: Plan, name: str) -> str:
    """What the world consists of."""
    faults = Counter(type(fault).__name__.lower() for fault in plan.faults)
    return "\n".join(
        [
            f"world {name}  plan {plan.digest()}",
            f"features: {', '.join(plan.features) or 'none'}",
            f"faults: {', '.join(f'{fault} {count}' for fault, count in sorted(faults.items())) or 'none'}",
            f"knobs: {plan.knobs!r}",
            f"{len(plan.nodes)} nodes, {len(plan.operations)} operations",
        ]
    )


def render(lines: Iterable[Line], *, every: bool = False) -> list[str]:
    """One row for each line; later rows of a text with several lines are indented. Details only with `every`."""
    found = [line for line in lines if every or not line.detail]
    width = max((len(line.node) for line in found), default=0)
    rows: list[str] = []
    for line in found:
        first, *rest = line.text.splitlines() or [""]
        rows.append(f"{line.at:10.3f}  {line.node:{width}}  {first}".rstrip())
        rows += [" " * (width + 14) + each for each in rest]
    return rows


def tell(plan: Plan, outcome: Outcome, name: str, *, every: bool = False) -> str:
    """All of it: the heading, the timeline, the violations, how to play it again."""
    parts = [heading(plan, name), "\n".join(render(outcome.lines, every=every))]
    ending = [f"VIOLATION {each.rule} at {each.at:.3f} {each.node}: {each.text}" for each in outcome.violations]
    ending.append(f"{len(outcome.violations)} violations, {outcome.virtual_s:.1f} virtual s, digest {outcome.digest}")
    ending.append(f"replay: ./hw sim --replay {name}")
    if outcome.violations:
        ending.append(f"shrink: ./hw sim --shrink {name}")
    return "\n\n".join(part for part in [*parts, "\n".join(ending)] if part)
