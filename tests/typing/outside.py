"""What an author types about the world outside, with the type it has. As `api.py`: checkers read it, and it runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_type

import headwater as hw


@dataclass(frozen=True)
class Report:
    text: str


app = hw.App("outside")


@app.resource(fresh_for="10m", retry=hw.Retry(3, on=OSError), timeout="5s", name="the weather")
async def weather(city: str, unit: str = "C") -> Report:
    return Report(f"{city} in {unit}")


@app.resource
async def rates() -> list[float]:
    return [1.0]


assert_type(rates, hw.Resource[[], list[float]])


def text_of(found: hw.Pending | hw.Ready[Report] | hw.Failed[Report]) -> str:
    match found:
        case hw.Pending():
            return "loading"
        case hw.Ready(report):
            assert_type(report, Report)
            assert_type(found.at, datetime)
            assert_type(found.age, timedelta)
            assert_type(found.is_stale, bool)
            return report.text
        case hw.Failed(error, last):
            assert_type(error, hw.ResourceError)
            assert_type(last, Report | None)
            return error.message


@app.sink
def show() -> None:
    assert_type(rates(), hw.Pending | hw.Ready[list[float]] | hw.Failed[list[float]])
    assert_type(text_of(weather("Oslo")), str)
    assert_type(hw.clock(every="1m"), datetime)


def use_resources(space: hw.Space) -> None:
    assert_type(weather.refresh("Oslo", unit="F"), None)
    assert_type(space.runs(weather), int)
    assert_type(hw.why(weather, "Oslo"), str)
    while weather("Oslo") == hw.Pending():
        space.wait("5ms")
    assert text_of(weather("Oslo")) == "Oslo in C"


if __name__ == "__main__":
    with app.open("memory:") as opened:
        use_resources(opened)
