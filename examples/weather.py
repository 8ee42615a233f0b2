"""The weather outside: asked for while it is observed, once for each city, kept in the file for ten minutes.

The weather station is part of this program, so that it runs anywhere; without `transport=STATION` a real one is asked.
"""

from dataclasses import dataclass

import httpx

import headwater as hw

TEMPERATURES = {"Oslo": -4.5, "Rome": 17.0}


def station(request: httpx.Request) -> httpx.Response:
    name = request.url.params["city"]
    return httpx.Response(200, json={"city": name, "temp": TEMPERATURES[name]})


STATION = httpx.MockTransport(station)


@dataclass(frozen=True)
class Report:
    city: str
    temp: float


app = hw.App("weather")
city = app.cell("city", "Oslo")


@app.resource(fresh_for="10m", retry=hw.Retry(3, on=httpx.TransportError))
async def weather(name: str) -> Report:  # cached per argument, survives restart
    async with httpx.AsyncClient(transport=STATION) as client:
        answer = await client.get("https://weather.example/now", params={"city": name})
    found = answer.raise_for_status().json()
    return Report(found["city"], found["temp"])


@app.sink
def show() -> None:
    match weather(city.value):
        case hw.Pending():
            print("loading")
        case hw.Ready(report):
            print(report.city, report.temp)
        case hw.Failed(error, last):
            print("stale", last, error)


def wait_for_answer(space: hw.Space) -> None:
    """A plain program has one thread, and that is its own: what came is taken in while it waits."""
    while weather(city.value) == hw.Pending():
        space.wait("10ms")


if __name__ == "__main__":
    with app.open("weather.db") as space:
        wait_for_answer(space)
        city.value = "Rome"
        wait_for_answer(space)
        city.value = "Oslo"  # still fresh: no request is sent
        print("requests:", space.runs(weather))
