"""Metrics of the server: counters and histograms, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Bucket bounds in seconds, from the arrival of a commit to its verdict: from a fast disk to a busy one."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts of durations, by bucket."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        # Count per bucket; the last one has no upper bound.
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum += seconds

    def add(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        """The total count."""
        return sum(self.counts)


@dataclass(slots=True, eq=False)
class Traffic:
    """Traffic of one server. Each comment names the only writer of a field."""

    # socket
    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    slow: int = 0
    # authenticator: refused upgrades, by status.
    refused: dict[int, int] = field(default_factory=dict)
    upgrades: int = 0
    # routes: HTTP requests, by page and status.
    posts: dict[int, int] = field(default_factory=dict)
    backups: int = 0


@dataclass(slots=True, eq=False)
class WorkCounts:
    """Work for spaces, closed ones included, so that counters never decrease."""

    commits: int = 0
    delivered: int = 0
    groups: int = 0
    decided: Histogram = field(default_factory=Histogram)

    def add(self, commits: int, delivered: int, groups: int, decided: Histogram) -> Self:
        """The counts of one space."""
        self.commits += commits
        self.delivered += delivered
        self.groups += groups
        self.decided.add(decided)
        return self


# --- the text -------------------------------------------------------------------------------------------------

Kind = Literal["counter", "gauge", "histogram"]
_NAME: Final = "headwater_"


class MetricsText:
    """The text of the page, one metric family after the other."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(
        self, name: str, kind: Kind, words: str, samples: Iterable[tuple[Mapping[str, str], float]] | float
    ) -> None:
        """Write one value, or one per set of labels."""
        full = name if name.startswith("process_") else _NAME + name
        self._head(full, kind, words)
        for labels, value in [({}, samples)] if isinstance(samples, int | float) else samples:
            self._lines.append(f"{full}{_labels(labels)} {_number(value)}")

    def histogram(self, name: str, words: str, found: Histogram) -> None:
        """Write a histogram with cumulative buckets."""
        full = _NAME + name
        self._head(full, "histogram", words)
        so_far = 0
        for bound, count in zip((*BOUNDS_S, float("inf")), found.counts, strict=True):
            so_far += count
            self._lines.append(f"{full}_bucket{_labels({'le': _number(bound)})} {so_far}")
        self._lines += [f"{full}_sum {_number(found.sum)}", f"{full}_count {so_far}"]

    def _head(self, full: str, kind: Kind, words: str) -> None:
        told = words.replace("\\", r"\\").replace("\n", r"\n")
        self._lines += [f"# HELP {full} {told}", f"# TYPE {full} {kind}"]

    def text(self) -> str:
        """The whole text."""
        return "\n".join(self._lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
