"""Writes the figures of a long run into docs/internals/reliability.md: `python -m sim.figures REPORT.json`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import msgspec

from sim import sometimes
from sim.report import Report

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "internals" / "reliability.md"

BEGIN, END = "<!-- figures of ./hw sim -->", "<!-- end of figures -->"


SHOWN: Final = ("operations", "acts", "commits", "published", "effects", "kills", "kills in I/O")
"""The counts of worlds that are shown."""


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _each(report: Report) -> str:
    return f"{report.cpu_s / max(report.played, 1):.2f}"


def render(report: Report) -> str:
    """Two tables in Markdown: sums, and how often each declared situation occurred."""
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(report.worlds.items()))
    rows = [
        ("worlds", f"{report.played:,}: {kinds}"),
        ("seeds", f"from {report.first_seed}"),
        ("time", f"{report.real_s / 60:.0f} minutes, {report.played / max(report.real_s, 1e-9):.1f} worlds a second"),
        ("processor time of the worlds", f"{report.cpu_s / 3600:.1f} hours, {_each(report)} s each"),
        (
            "virtual time",
            f"{report.virtual_s / 3600:,.0f} hours, {report.virtual_s / max(report.real_s, 1e-9):.0f} times real time",
        ),
        ("hand-overs between threads", f"{report.switches:,}"),
        ("faults", _listed({name[6:]: count for name, count in report.counts.items() if name.startswith("fault ")})),
        *((name, f"{report.counts[name]:,}") for name in SHOWN if name in report.counts),
        ("worlds that violated a rule", f"{len(report.failures):,}"),
    ]
    lines = ["| Figure | Value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    lines += ["", "| Situation | Kind | Occurred |", "|---|---|---|"]
    lines += [
        f"| {each.name} | {each.kind} | {report.sometimes.get(each.name, 0):,} |"
        for each in sometimes.declared(report.by_bare_kind)
    ]
    return "\n".join(lines)


def written(page: str, report: Report) -> str:
    """The text of the page with other figures."""
    section = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    return section.sub(lambda _: f"{BEGIN}\n\n{render(report)}\n\n{END}", page, count=1)


def main() -> None:
    """The argument is a file that `./hw sim --report` has written."""
    report = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Report)
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main()
