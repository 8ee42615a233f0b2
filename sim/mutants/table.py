"""Tables of what the worlds found: for a terminal, and for docs/internals/mutants.md."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from sim.mutants.catalog import AREAS, find
from sim.mutants.hunt import Finding
from sim.mutants.survivors import SURVIVORS

_HEAD: Final = """\
# Mutants

A mutant is a mistake that is planted in the product: a check left out, a wake-up forgotten, two steps in the wrong
order. The worlds of `./hw sim` are played on each of them. A mutant is *killed* by the first world that breaks a rule
which holds in the same world without the mutant. How many are killed says what the worlds can see; a survivor is a
blind spot of the worlds, not of the product.

`./hw mutants` plays, `./hw mutants --write` writes this page. The mutants are data in `sim/mutants/`; a mutant that
does not fit the source any more breaks `./hw check`.
"""


def name_of(finding: Finding) -> str:
    """Area and name."""
    return f"{finding.area}.{finding.name}"


def new_survivors(findings: Sequence[Finding]) -> list[Finding]:
    """Those that are not known to survive."""
    return [each for each in findings if each.verdict == "survived" and name_of(each) not in SURVIVORS]


def _rows(findings: Sequence[Finding]) -> list[tuple[str, int, int, int, int, int, str]]:
    rows = []
    for area in [*AREAS, ""]:
        own = [each for each in findings if area in ("", each.area)]
        if not own:
            continue
        count = {verdict: sum(each.verdict == verdict for each in own) for verdict in ("killed", "equivalent")}
        survived = [each for each in own if each.verdict == "survived"]
        unplayed = sum(each.verdict == "unplayed" for each in own)
        tried = count["killed"] + len(survived)
        share = f"{100 * count['killed'] / tried:.0f} %" if tried else "-"
        rows.append((area or "all", len(own), count["killed"], count["equivalent"], len(survived), unplayed, share))
    return rows


def summary(findings: Sequence[Finding]) -> str:
    """The table by area, and the survivors."""
    lines = [f"{'area':10}{'mutants':>9}{'killed':>8}{'equivalent':>12}{'survivors':>11}{'unplayed':>10}{'found':>8}"]
    lines += [
        f"{area:10}{total:9}{killed:8}{same:12}{left:11}{unplayed:10}{share:>8}"
        for area, total, killed, same, left, unplayed, share in _rows(findings)
    ]
    if killed := [each for each in findings if each.verdict == "killed"]:
        lines += [
            "",
            (
                f"to the first kill: {median(each.worlds for each in killed):g} worlds, "
                f"{median(each.seconds for each in killed):.1f} s (median)"
            ),
        ]
    if survivors := [each for each in findings if each.verdict == "survived"]:
        lines += ["", "survivors:"]
        lines += [f"  {_line(each)}" for each in survivors]
    if mistaken := [each for each in killed if name_of(each) in SURVIVORS]:
        lines += ["", "killed, though listed as survivors (take them from sim/mutants/survivors.py):"]
        lines += [f"  {name_of(each)} by {each.kind}:{each.seed}" for each in mistaken]
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    reason = SURVIVORS.get(name_of(finding), "NEW")
    return f"{name_of(finding):36} {find(name_of(finding)).breaks:10} {finding.worlds:6} worlds  {reason}"


def page(findings: Sequence[Finding]) -> str:
    """The text of docs/internals/mutants.md."""
    lines = [_HEAD, "## By area", ""]
    lines += ["| area | mutants | killed | equivalent | survivors | found |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {area} | {total} | {killed} | {same} | {left} | {share} |"
        for area, total, killed, same, left, _, share in _rows(findings)
    ]
    if killed := [each for each in findings if each.verdict == "killed"]:
        lines += ["", f"Median of the worlds to the first kill: {median(each.worlds for each in killed):g}."]
    for area in AREAS:
        own = [each for each in findings if each.area == area]
        if own:
            lines += ["", f"## {area.capitalize()}", "", "| mutant | where | breaks | killed by |", "|---|---|---|---|"]
            lines += [_row(each) for each in own]
    return "\n".join(lines) + "\n"


def _row(finding: Finding) -> str:
    mutant = find(name_of(finding))
    where = mutant.where.rpartition(":")[2]
    return f"| {finding.name} | `{where}` | {mutant.breaks} | {_verdict(finding)} |"


def _verdict(finding: Finding) -> str:
    if finding.verdict == "killed":
        return f"{finding.kind.removeprefix('small-')} ({finding.rule}) after {finding.worlds} worlds"
    if finding.verdict == "equivalent":
        return f"equivalent: {finding.text}"
    if finding.verdict == "survived":
        return f"survives {finding.worlds} worlds: {SURVIVORS.get(name_of(finding), 'the reason is not known')}"
    return "not played"
