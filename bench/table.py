"""One table of the benchmark: rows with a figure, a limit, and whether it holds."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version

from headwater.cells import replica


@dataclass(slots=True)
class Row:
    """A measurement. `limit` is what it is held to, as text; `holds` is None for rows that only inform."""

    name: str
    figure: str
    limit: str = ""
    holds: bool | None = None


@dataclass(slots=True)
class Table:
    """Rows of one subject, in the order they were measured."""

    name: str
    rows: list[Row] = field(default_factory=list)
    show: Callable[[Row], None] = lambda _row: None

    def add(self, name: str, figure: str, limit: str = "", holds: bool | None = None) -> None:
        """One more row, shown at once: some take a while."""
        row = Row(name, figure, limit, holds)
        self.rows.append(row)
        self.show(row)

    def as_json(self) -> dict[str, object]:
        """For scripts."""
        return {"table": self.name, "machine": machine(), "rows": [asdict(row) for row in self.rows]}


def machine() -> dict[str, str]:
    """What the figures were measured on and with."""
    libraries = {name: version(name) for name in ("apsw", "msgspec")}
    cores = str(os.cpu_count())
    core = "compiled" if is_compiled() else "pure"
    return {
        "core": core,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": cores,
        **libraries,
    }


def is_compiled() -> bool:
    """Whether the core of this process is the compiled form, and not its Python sources."""
    return not (replica.__file__ or "").endswith(".py")


def best_us(work: Callable[[], object], count: int, rounds: int = 7) -> float:
    """Microseconds of one of `count` repetitions that `work` performs: the quickest round, the least disturbed one."""
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) / count * 1e6)
    return min(times)


def paired(ours: Callable[[], float], peer: Callable[[], float], rounds: int = 5) -> tuple[float, float, float]:
    """Both rates, measured in turns so that the machine's moods hit both, and the median of the ratios."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    return statistics.median(mine for mine, _ in pairs), statistics.median(theirs for _, theirs in pairs), ratio
