"""`./hw mutants`: plays worlds on planted mistakes, and says which of them no world finds."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from sim.kinds import KINDS
from sim.mutants import reach, table
from sim.mutants.catalog import AREAS, MUTANTS
from sim.mutants.hunt import SECONDS, Finding, Hunt, SourceChangedError
from sim.mutants.mutant import Mutant, RottenError, mutated

CLEAN, SURVIVED, MISUSE, INTERRUPTED = 0, 1, 2, 130

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "internals" / "mutants.md"

_EPILOG = """\
A mutant is killed by the first world that breaks a rule which holds in the same world without the mutant.

exit codes: 0 every mutant was killed, is equivalent, or is a known survivor; 1 a new survivor, or a mutant that does
not fit the source; 2 wrong use
"""


def main(args: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = _parser()
    options = parser.parse_args(args)
    chosen = _chosen(options)
    if not chosen:
        parser.exit(MISUSE, f"hw mutants: there is no such mutant; areas are: {', '.join(AREAS)}\n")
    if options.json is not None and not options.json.absolute().parent.is_dir():
        parser.exit(MISUSE, f"hw mutants: there is no folder {options.json.absolute().parent}\n")
    rotten = _rotten(chosen)
    for text in rotten:
        print(f"rotten: {text}")
    if rotten:
        return SURVIVED
    if not KINDS:
        parser.exit(MISUSE, "hw mutants: there is no kind of worlds yet\n")
    if options.reach:
        return _reach(chosen, options)
    return _hunt(chosen, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hw mutants",
        description="Play worlds on planted mistakes: those that no world finds are blind spots of the worlds.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--area", metavar="A", action="append", help=f"mutants of one area: {', '.join(AREAS)}")
    parser.add_argument("--name", metavar="N", action="append", help="one mutant, such as sync.not_sent_again")
    parser.add_argument("--kind", metavar="K", action="append", help=f"worlds of one kind only: {', '.join(KINDS)}")
    parser.add_argument("--minutes", metavar="M", type=float, help="stop after M minutes in all")
    parser.add_argument(
        "--seeds",
        metavar="N",
        type=int,
        help="the worlds of `./hw sim --from 1 --seeds N`; a mutant is played in those that come to its code",
    )
    parser.add_argument(
        "--seconds-each",
        metavar="S",
        type=float,
        help=f"for each mutant (default: {SECONDS:g}; with --seeds, all of its worlds)",
    )
    parser.add_argument("--worlds-each", metavar="W", type=int, help="at most so many worlds for each mutant")
    parser.add_argument("--jobs", metavar="J", type=int, default=_cores(), help="processes (default: one per core)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="add the findings to those in this file")
    parser.add_argument("--left", action="store_true", help="with --json: only mutants that are not killed there")
    parser.add_argument("--write", action="store_true", help="write docs/internals/mutants.md from all findings")
    parser.add_argument("--reach", action="store_true", help="say how often unchanged worlds come to the mutated code")
    return parser


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    """Without a choice, all."""
    return [
        each
        for each in MUTANTS
        if (not options.area or each.area in options.area)
        and (not options.name or each.name in options.name or f"{each.area}.{each.name}" in options.name)
    ]


def _rotten(mutants: Sequence[Mutant]) -> list[str]:
    found = []
    for mutant in mutants:
        try:
            mutated(mutant)
        except RottenError as error:
            found.append(str(error))
    return found


# --- playing ----------------------------------------------------------------------------------------------------------


def _hunt(chosen: list[Mutant], options: argparse.Namespace) -> int:
    known = _read(options.json)
    if options.left:
        chosen = [each for each in chosen if not _is_killed(known.get(_key(each)))]
    line = _Progress(len(chosen))
    hunt = Hunt(
        jobs=options.jobs,
        seconds=_seconds(options),
        worlds=options.worlds_each,
        kinds=tuple(options.kind or ()),
        on_world=line.show,
    )
    until = None if options.minutes is None else time.monotonic() + options.minutes * 60
    findings: list[Finding] = []
    sifted: reach.Sieve | None = None
    code = CLEAN
    try:
        if options.seeds is not None:
            line.next("without mutants")
            sifted = reach.sieve(chosen, range(1, options.seeds + 1), jobs=options.jobs, on_world=line.show)
            hunt.knows(sifted.broken)
        for mutant in chosen:
            if until is not None and time.monotonic() >= until:
                findings.append(Finding(area=mutant.area, name=mutant.name, verdict="unplayed"))
                continue
            line.next(_key(mutant))
            finding = hunt.hunt(mutant) if sifted is None else in_order(hunt, mutant, sifted)
            findings.append(finding)
            if finding.verdict != "unplayed":
                known[table.name_of(finding)] = finding
                line.tell(finding)
                _write(options.json, known)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SourceChangedError:
        line.clear()
        print("hw mutants: files were changed while worlds were played; start again", file=sys.stderr)
        return MISUSE
    line.clear()
    print(table.summary(findings))
    if options.write:
        every = [known.get(_key(each)) or _unplayed(each) for each in MUTANTS]
        PAGE.write_text(table.page(every), encoding="utf-8")
    if new := table.new_survivors(findings):
        print(f"\nFAILED: {len(new)} survivors are not in sim/mutants/survivors.py")
        return SURVIVED
    return code


def _seconds(options: argparse.Namespace) -> float:
    """With a number of worlds, a mutant survives only if all of them were played."""
    if options.seconds_each is not None:
        return float(options.seconds_each)
    return SECONDS if options.seeds is None else math.inf


def in_order(hunt: Hunt, mutant: Mutant, sifted: reach.Sieve) -> Finding:
    """What a run of all worlds of the seeds in turn would find, of those that can kill the mutant."""
    finding = hunt.hunt(mutant, sifted.worlds[_key(mutant)])
    if finding.verdict == "killed":
        return msgspec.structs.replace(finding, worlds=finding.seed)
    is_whole = finding.verdict == "survived" and finding.worlds >= len(sifted.worlds[_key(mutant)])
    return msgspec.structs.replace(finding, worlds=sifted.seeds) if is_whole else finding


def _key(mutant: Mutant) -> str:
    return f"{mutant.area}.{mutant.name}"


def _unplayed(mutant: Mutant) -> Finding:
    return Finding(area=mutant.area, name=mutant.name, verdict="unplayed")


def _is_killed(finding: Finding | None) -> bool:
    return finding is not None and finding.verdict in ("killed", "equivalent")


def _read(path: Path | None) -> dict[str, Finding]:
    """Earlier findings by area and name, without those of mutants that are gone."""
    if path is None or not path.exists():
        return {}
    found = msgspec.json.decode(path.read_bytes(), type=list[Finding])
    names = {_key(each) for each in MUTANTS}
    return {table.name_of(each): each for each in found if table.name_of(each) in names}


def _write(path: Path | None, findings: dict[str, Finding]) -> None:
    if path is not None:
        text = msgspec.json.format(msgspec.json.encode([findings[name] for name in sorted(findings)]))
        whole = path.with_suffix(".new")
        whole.write_bytes(text + b"\n")
        whole.replace(path)


def _reach(chosen: list[Mutant], options: argparse.Namespace) -> int:
    found = reach.reached(
        chosen,
        seconds=options.seconds_each or SECONDS,
        worlds=options.worlds_each,
        jobs=options.jobs,
        kinds=options.kind,
    )
    print(f"{'mutant':44}{'reached':>10}{'changed':>10}{'worlds':>8}")
    for each in found:
        changed = "-" if each.changed is None else str(each.changed)
        print(f"{each.name:44}{each.reached:10}{changed:>10}{each.worlds:8}")
    return CLEAN


class _Progress:
    """A line on a terminal that is written anew, and one line for each mutant."""

    def __init__(self, total: int) -> None:
        self._total, self._count, self._worlds, self._name = total, 0, 0, ""
        self._is_shown = sys.stderr.isatty()
        self._next, self._since = 0.0, time.monotonic()

    def next(self, name: str) -> None:
        self._count, self._name, self._worlds, self._since = self._count + 1, name, 0, time.monotonic()
        self.show(at_once=True)

    def show(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        self._worlds += not at_once
        if self._is_shown and (at_once or now >= self._next):
            self._next = now + 0.25
            text = f"{self._count}/{self._total} {self._name}: {self._worlds} worlds, {now - self._since:.0f} s"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def tell(self, finding: Finding) -> None:
        self.clear()
        by = f"by {finding.kind}:{finding.seed} ({finding.rule})" if finding.verdict == "killed" else ""
        spent = f"{finding.worlds} worlds, {finding.seconds:.1f} s"
        print(f"{table.name_of(finding):40} {finding.verdict:10} {spent:22} {by}", flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
