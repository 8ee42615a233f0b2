"""`./hw sim`: plays simulated worlds, and plays single ones again, shrinks them, compares two runs of each."""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sim import failing
from sim.kinds import (
    KINDS,
    SEED_MAX,
    SMALL,
    UnknownWorldError,
    check_kind,
    kind_of,
    make_plan,
    parse,
    play_seed,
    source_of,
)
from sim.plan import Outcome
from sim.report import Failure, Report
from sim.runner import LIMIT_S, Limits, run
from sim.sometimes import STRICT_MINUTES
from sim.worker import Name, Result

CLEAN, FAILED, MISUSE, DIFFERENT, STUCK, INTERRUPTED = 0, 1, 2, 3, 4, 130

DEFAULT_S: Final = 60.0
"""What a change has to pass: some hundred worlds."""

SAVED_S: Final = 60.0
"""A long run writes its report as often."""

_EPILOG = """\
A world is named by its kind and seed, such as shared:81734, or small-shared:81734 for a small plan.
A plain number means a world of the kind that is drawn from it.

exit codes: 0 every rule held, 1 a violation (or, from 30 minutes on, a situation that never occurred),
2 wrong use, 3 two runs of a seed differ, 4 an actor never handed over
"""


def main(args: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = _parser()
    options = parser.parse_args(args)
    try:
        _check(options)
        if options.replay is not None:
            return _replay(options)
        if options.shrink is not None:
            return _shrink(options)
        if options.twice is not None:
            return _twice(options)
        return _run(options)
    except UnknownWorldError as error:
        parser.exit(MISUSE, f"hw sim: {error}\n")
    except BrokenPipeError:
        # The reader of the output is gone, such as `head`. Nothing may be written at the end of the interpreter.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hw sim",
        description="Play worlds: the product on simulated threads, time, disks and network, with faults.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--replay", metavar="SEED", help="show the timeline of one world")
    what.add_argument("--shrink", metavar="SEED", help="write the smallest plan that still fails to tests/regress")
    what.add_argument(
        "--twice", metavar="N", type=_count, help="play N worlds in two interpreters each and compare the digests"
    )
    parser.add_argument("--seeds", metavar="N", type=_count, help="play N worlds")
    parser.add_argument("--minutes", metavar="M", type=_minutes, help="play for M minutes (default: 1)")
    parser.add_argument("--kind", metavar="K", help=f"worlds of one kind: {', '.join(KINDS)}, or small-...")
    parser.add_argument("--small", action="store_true", help="small plans only")
    parser.add_argument("--from", metavar="SEED", dest="first", type=_seed, help="the first seed (default: drawn)")
    parser.add_argument("--jobs", metavar="J", type=_count, default=_cores(), help="processes (default: one per core)")
    parser.add_argument("--every", action="store_true", help="with --replay: frames, disk writes and switches too")
    parser.add_argument("--source", action="store_true", help="with --replay: only the generated program")
    parser.add_argument("--report", metavar="FILE", type=Path, help="write figures and failures to a JSON file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="on the compiled core; with --twice, one of two plays on the sources",
    )
    parser.add_argument("--fresh", action="store_true", help="do not play the plans first that failed in earlier runs")
    return parser


def _check(options: argparse.Namespace) -> None:
    """What the parser cannot see by itself."""
    if options.kind is not None:
        options.kind = check_kind(options.kind)
        if options.small and not options.kind.startswith(SMALL):
            options.kind = f"{SMALL}{options.kind}"
    for name in ("every", "source"):
        if getattr(options, name) and options.replay is None:
            raise UnknownWorldError(f"--{name} belongs to --replay")
    single = options.replay is not None or options.shrink is not None
    for name in ("seeds", "minutes", "report", "first"):
        if single and getattr(options, name) is not None:
            raise UnknownWorldError(f"--{'from' if name == 'first' else name} does not belong to --replay or --shrink")
    if options.twice is not None and options.seeds is not None:
        raise UnknownWorldError("--twice has its own number of worlds: leave --seeds out")
    if options.report is not None and not options.report.absolute().parent.is_dir():
        raise UnknownWorldError(f"there is no folder {options.report.absolute().parent} for the report")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < SEED_MAX:
        raise argparse.ArgumentTypeError(f"expected a number from 1, not {text!r}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= SEED_MAX:
        raise argparse.ArgumentTypeError(f"expected a number from 0, not {text!r}")
    return int(text)


def _minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6:
        raise argparse.ArgumentTypeError(f"expected minutes, such as 30 or 0.5, not {text!r}")
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- many worlds ---------------------------------------------------------------------------------------------------


def names_from(first: int, kind: str | None, *, small: bool = False) -> Iterator[Name]:
    """The worlds of all seeds from one on."""
    for seed in itertools.count(first):
        drawn = kind or kind_of(seed)
        yield drawn if not small or drawn.startswith(SMALL) else f"{SMALL}{drawn}", seed


def _run(options: argparse.Namespace) -> int:
    first = options.first if options.first is not None else secrets.randbelow(10**6) * 1000
    report = Report(first_seed=first)
    begin = time.monotonic()
    until = None
    if options.minutes is not None or options.seeds is None:
        until = begin + (options.minutes * 60 if options.minutes is not None else DEFAULT_S)
    known = [] if options.fresh else failing.known()
    again = [(each.kind, each.seed) for each in known if _is_wanted(each, options)]
    fresh = (name for name in names_from(first, options.kind, small=options.small) if name not in again)
    names = itertools.chain(again, itertools.islice(fresh, options.seeds))
    line = _Progress(report, begin, until, options.seeds)
    saved = begin

    def save() -> None:
        report.real_s = time.monotonic() - begin
        if options.report is not None:
            options.report.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")

    def take(result: Result) -> None:
        nonlocal saved
        failure = report.add(result)
        # A kind that has a dot belongs to a test.
        if failure is not None and "." not in failure.kind and not failure.is_open:
            # At once: a run of hours may be cut off.
            failing.remember([failure])
            line.tell(failure)
        if time.monotonic() - saved > SAVED_S:
            saved = time.monotonic()
            save()
        line.show()

    is_whole = play_many(_while_time(names, until), take, jobs=options.jobs, tick=line.show)
    line.clear()
    save()
    print(msgspec.json.encode(report).decode() if options.json else report.summary())
    for failure in report.failures:
        if failure.status in ("stuck", "too slow", "error", "died") and not options.json:
            print(f"\n{failure.name} {failure.status}\n{failure.text[:4000]}")
            break
    return _verdict(report, options, is_whole=is_whole)


def _verdict(report: Report, options: argparse.Namespace, *, is_whole: bool) -> int:
    if any(failure.status == "stuck" for failure in report.failures):
        return STUCK
    if report.new_failures:
        return FAILED
    if not is_whole:
        return INTERRUPTED
    if (options.minutes or 0) >= STRICT_MINUTES and (never := report.never()):
        if not options.json:
            print(f"\nFAILED: never occurred: {', '.join(never)}")
        return FAILED
    return CLEAN


def play_many(
    names: Iterator[Name], take: Callable[[Result], None], *, jobs: int, tick: Callable[[], bool] | None = None
) -> bool:
    """Play worlds by their names. False: it was interrupted."""
    # The product is imported once, by the parent of all children.
    from sim.world import progress  # noqa: PLC0415  # wrong use is answered before that

    for kind in KINDS:
        __import__(f"sim.kinds.{kind}")

    def play(kind: str, seed: int) -> Outcome:
        # The timeline of a world can be had by playing it again.
        return msgspec.structs.replace(play_seed(kind, seed), lines=())

    return run(names, play, jobs=jobs, on_result=take, progress=progress, tick=tick, limits=Limits())


def _is_wanted(failure: Failure, options: argparse.Namespace) -> bool:
    """Whether a plan that failed belongs to the worlds asked for."""
    try:
        kind = check_kind(failure.kind)
    except UnknownWorldError:
        return False
    return kind == options.kind if options.kind else "." not in kind and (not options.small or kind.startswith(SMALL))


def _while_time(names: Iterator[Name], until: float | None) -> Iterator[Name]:
    for name in names:
        if until is not None and time.monotonic() >= until:
            return
        yield name


class _Progress:
    """One line on a terminal that is written anew."""

    def __init__(self, report: Report, begin: float, until: float | None, seeds: int | None) -> None:
        self._report, self._begin, self._until, self._seeds = report, begin, until, seeds
        self._is_shown = sys.stderr.isatty()
        self._next = 0.0

    def show(self) -> bool:
        now = time.monotonic()
        if self._is_shown and now >= self._next:
            self._next = now + 0.25
            report, seconds = self._report, max(now - self._begin, 1e-3)
            left = f"{max(self._until - now, 0):.0f} s left" if self._until is not None else f"of {self._seeds}"
            text = (
                f"{report.played} worlds, {report.played / seconds:.1f}/s, {report.virtual_s / 3600:.1f} virtual h, "
                f"{len(report.failures)} failed, {left}"
            )
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        return True

    def tell(self, failure: Failure) -> None:
        """A world that has just failed."""
        self.clear()
        seconds = time.monotonic() - self._begin
        print(f"{seconds:6.0f} s  {failure.name}  {', '.join(failure.rules)}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# --- one world -----------------------------------------------------------------------------------------------------


def _name(text: str, options: argparse.Namespace) -> Name:
    kind, seed = parse(text, options.kind)
    return (f"{SMALL}{kind}" if options.small and not kind.startswith(SMALL) else kind), seed


def _play_one(kind: str, seed: int) -> Result:
    """In a child, with its limits."""
    from sim.world import progress  # noqa: PLC0415  # as above

    found: list[Result] = []

    def play(kind: str, seed: int) -> Outcome:
        return play_seed(kind, seed, record=True)

    # Shown to a person, who may wait longer than a run of many worlds.
    patient = Limits(real_s=10 * LIMIT_S)
    if not run([(kind, seed)], play, jobs=1, on_result=found.append, progress=progress, limits=patient):
        raise KeyboardInterrupt
    return found[0]


def _replay(options: argparse.Namespace) -> int:
    from sim.timeline import tell  # noqa: PLC0415  # as above

    kind, seed = _name(options.replay, options)
    name = f"{kind}:{seed}"
    plan = make_plan(kind, seed)
    if options.source:
        if (text := source_of(kind, plan)) is None:
            raise UnknownWorldError(f"{name}: programs of this kind are not generated; see sim/kinds/")
        print(text, end="")
        return CLEAN
    result = _play_one(kind, seed)
    if options.json:
        print(msgspec.json.encode(result).decode())
    elif result.status in ("ok", "failed"):
        print(tell(plan, result.outcome, name, every=options.every))
    else:
        print(f"{name}: {result.status}\n{result.text}")
    for failure in failing.known():
        if failure.name == name and failure.plan and failure.plan != plan.digest():
            print(
                f"hw sim: {name} failed with the plan {failure.plan}; this source makes {plan.digest()} of it: "
                "another world",
                file=sys.stderr,
            )
    return STUCK if result.status == "stuck" else FAILED if result.is_failure else CLEAN


def _shrink(options: argparse.Namespace) -> int:
    from sim import shrink  # noqa: PLC0415  # as above

    kind, seed = _name(options.shrink, options)
    plan = make_plan(kind, seed)
    rule = shrink.rule_of(shrink.play_plans([plan], seed, 1)[0])
    if rule is None:
        print(f"hw sim: {kind}:{seed} violates no rule: there is nothing to shrink", file=sys.stderr)
        return CLEAN
    found = shrink.shrink(plan, seed, rule, jobs=options.jobs)
    path = shrink.write_test(found, kind, seed)
    print(path.read_text(encoding="utf-8"))
    print(f"{found.sizes()}\nrule {found.rule}: {found.text}\nwritten to {os.path.relpath(path)}")
    return FAILED


def _twice(options: argparse.Namespace) -> int:
    from sim import twice  # noqa: PLC0415  # as above

    first = options.first if options.first is not None else secrets.randbelow(10**6) * 1000
    names = itertools.islice(names_from(first, options.kind, small=options.small), options.twice)
    until = time.monotonic() + options.minutes * 60 if options.minutes is not None else None

    def show(played: int, found: list[twice.Difference]) -> None:
        if sys.stderr.isatty():
            print(
                f"\r\x1b[K{played} of {options.twice} worlds, {len(found)} differ", end="", file=sys.stderr, flush=True
            )

    forms = twice.FORMS if options.compiled else twice.ONE_FORM
    played, differences = twice.compare(_while_time(names, until), forms=forms, jobs=options.jobs, on_batch=show)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if options.json:
        print(msgspec.json.encode({"first_seed": first, "played": played, "differences": differences}).decode())
    else:
        for each in differences[:5]:
            print(each.tell())
        how = "compiled and from the sources" if options.compiled else "in two interpreters"
        print(f"{played} worlds from seed {first}, each {how}: {len(differences)} differ")
        if options.compiled:
            print("without the worlds of the range that are interrupted at lines of Python")
    return DIFFERENT if differences else CLEAN
