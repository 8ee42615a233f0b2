"""`./hw bench [TABLE...]`: run the tables and print them. Exits 1 if a row does not hold its limit.

Each table is measured twice where the core can be compiled, in a process each: on the sources and on the compiled form.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable

from bench import (
    cells,
    collections_table,
    counts,
    events,
    far,
    patterns,
    postgres,
    reactive,
    resume,
    spaces,
    store,
    studio,
    sync,
    walk,
    workflows,
)
from bench.table import Row, Table, machine

TABLES: dict[str, Callable[[Table], None]] = {
    "store": store.measure,
    "cells": cells.measure,
    "reactive": reactive.measure,
    "walk": walk.measure,
    "counts": counts.measure,
    "events": events.measure,
    "resume": resume.measure,
    "far": far.measure,
    "workflows": workflows.measure,
    "patterns": patterns.measure,
    "sync": sync.measure,
    "spaces": spaces.measure,
    "postgres": postgres.measure,
    "collections": collections_table.measure,
    "studio": studio.measure,
}

QUICK: dict[str, Callable[[Table], None]] = {
    "reactive": reactive.measure_quickly,
    "collections": collections_table.measure_quickly,
}

_MARKS = {True: "ok  ", False: "OVER", None: "    "}


def main() -> int:
    parser = argparse.ArgumentParser(prog="hw bench", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"one of: {', '.join(TABLES)}; all if none is named")
    parser.add_argument("--json", action="store_true", help="one JSON object per table, and per form of the core")
    parser.add_argument("--pure", action="store_true", help="the sources alone")
    parser.add_argument("--compiled", metavar="PYTHON", help=argparse.SUPPRESS)  # from ./hw: runs the compiled form
    parser.add_argument("--quick", action="store_true", help="of tables reactive and collections, a first look")
    parser.add_argument("--lower", action="store_true", help="of table counts, write down what has become less")
    options = parser.parse_args()
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"no table {unknown[0]!r}; there are: {', '.join(TABLES)}")
    if options.lower:
        counts.lower()
        return 0
    measure = _measure_both if options.compiled and not options.pure else _measure
    holds = [measure(name, options) for name in options.tables or TABLES]
    return int(not all(holds))


def _measure(name: str, options: argparse.Namespace) -> bool:
    """One table, in this process; whether all of its rows hold."""
    table = Table(name)
    if not options.json:
        print(f"{name}  ({_about(machine())})")
        table.show = _show
    measure = (QUICK if options.quick and name in QUICK else TABLES)[name]
    measure(table)
    if options.json:
        print(json.dumps(table.as_json()), flush=True)
    return all(row.holds is not False for row in table.rows)


def _measure_both(name: str, options: argparse.Namespace) -> bool:
    """One table in two processes, one after the other: at once, each would disturb the other."""
    texts = [_measure_apart(python, name, quick=options.quick) for python in (sys.executable, options.compiled)]
    if options.json:
        print("".join(texts), end="", flush=True)
    pure, compiled = (json.loads(text) for text in texts)
    rows = [[Row(**row) for row in found["rows"]] for found in (pure, compiled)]
    if not options.json:
        _show_both(name, pure["machine"], *rows)
    return all(row.holds is not False for row in rows[0] + rows[1])


def _measure_apart(python: str, name: str, *, quick: bool) -> str:
    """The table as JSON. Its exit code says no more than its rows do."""
    command = [python, "-m", "bench", name, "--json", "--pure", *(["--quick"] if quick else [])]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    if not text:
        raise RuntimeError(f"table {name} was not measured; see above")
    return text


def _about(facts: dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def _show(row: Row) -> None:
    print(f"  {_MARKS[row.holds]} {row.name:<66} {row.figure:>38}  {row.limit}", flush=True)


def _show_both(name: str, about: dict[str, str], pure: list[Row], compiled: list[Row]) -> None:
    """Both columns. Rows are matched by name: a row may be left out of one form."""
    print(f"{name}  ({_about({key: value for key, value in about.items() if key != 'core'})})")
    print(f"       {'':<66} {'pure':>38}       {'compiled':>38}")
    others = {row.name: row for row in compiled}
    for row in pure:
        other = others.pop(row.name, Row(row.name, "-"))
        limit = row.limit if other.limit in ("", row.limit) else f"{row.limit} / {other.limit}"
        line = f"{row.name:<66} {row.figure:>38}  {_MARKS[other.holds]} {other.figure:>38}  {limit}"
        print(f"  {_MARKS[row.holds]} {line}", flush=True)
    for row in others.values():
        print(f"       {row.name:<66} {'-':>38}  {_MARKS[row.holds]} {row.figure:>38}  {row.limit}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
