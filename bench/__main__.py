"""`./hw bench [TABLE...]`: run the tables and print them. Exits 1 if a row does not hold its limit."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from bench import cells, counts, events, patterns, reactive, resume, spaces, store, sync, walk, workflows
from bench.table import Row, Table, machine

TABLES: dict[str, Callable[[Table], None]] = {
    "store": store.measure,
    "cells": cells.measure,
    "reactive": reactive.measure,
    "walk": walk.measure,
    "counts": counts.measure,
    "events": events.measure,
    "resume": resume.measure,
    "workflows": workflows.measure,
    "patterns": patterns.measure,
    "sync": sync.measure,
    "spaces": spaces.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="hw bench", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"one of: {', '.join(TABLES)}; all if none is named")
    parser.add_argument("--json", action="store_true", help="one JSON object per table")
    parser.add_argument("--quick", action="store_true", help="of table reactive, a first look: shapes beside reaktiv")
    parser.add_argument("--lower", action="store_true", help="of table counts, write down what has become less")
    options = parser.parse_args()
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"no table {unknown[0]!r}; there are: {', '.join(TABLES)}")
    if options.lower:
        counts.lower()
        return 0
    tables = TABLES | {"reactive": reactive.measure_quickly} if options.quick else TABLES
    failed = False
    for name in options.tables or TABLES:
        table = Table(name)
        if not options.json:
            print(f"{name}  ({', '.join(f'{key} {value}' for key, value in machine().items())})")
            table.show = _show
        tables[name](table)
        if options.json:
            print(json.dumps(table.as_json()))
        failed = failed or any(row.holds is False for row in table.rows)
    return int(failed)


def _show(row: Row) -> None:
    mark = {True: "ok  ", False: "OVER", None: "    "}[row.holds]
    print(f"  {mark} {row.name:<66} {row.figure:>38}  {row.limit}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
