"""The shop with 100,000 orders as a web service: `uvicorn orders_web:web --timeout-graceful-shutdown 1`."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from orders import FILE, STATES, Row, app, fill, newest, page, pay, place, search, ship, totals

import headwater as hw

State = Literal["open", "paid", "shipped"]

open_pages: set[asyncio.Event] = set()


def view() -> dict[str, object]:
    return {"totals": totals(), "newest": {state: newest(state) for state in STATES}}


@app.sink
def push() -> None:  # runs after each commit that changes a total, or one of the newest orders
    view()
    for changed in open_pages:
        changed.set()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    async with app.aopen(FILE) as space:
        fill()
        await space.synced()
        yield


web = FastAPI(lifespan=lifespan)


@web.get("/")
async def index() -> FileResponse:
    return FileResponse(Path(__file__).with_name("orders.html"))


@web.get("/live")
async def live() -> StreamingResponse:
    async def lines() -> AsyncGenerator[str, None]:
        changed = asyncio.Event()
        open_pages.add(changed)
        try:
            while True:
                yield f"data: {json.dumps(view())}\n\n"
                await changed.wait()
                changed.clear()
        finally:
            open_pages.remove(changed)

    return StreamingResponse(lines(), media_type="text/event-stream")


@web.get("/totals")
async def read_totals() -> dict[str, dict[str, int]]:
    return totals()


@web.get("/orders")
async def read_orders(
    state: State = "open", after: str | None = None, customer: str | None = None
) -> dict[str, list[Row] | str | None]:
    rows, following = page(state, after, customer)
    return {"rows": rows, "next": following}


@web.get("/customers")
async def read_customers(begins: str = "") -> list[Row]:
    return search(begins) if begins else []


@web.post("/orders")
async def place_order(name: str, cents: int) -> Row:
    return await place.send(name, cents)


@web.post("/orders/{number}/pay")
async def pay_order(number: int) -> Row:
    return await pay.send(number)


@web.post("/orders/{number}/ship")
async def ship_order(number: int) -> Row:
    return await ship.send(number)


@web.exception_handler(hw.EventRejectedError)
async def conflict(_: Request, error: hw.EventRejectedError) -> JSONResponse:
    return JSONResponse({"detail": error.facts["reason"]}, 409)


@web.exception_handler(hw.HeadwaterError)
async def refused(_: Request, error: hw.HeadwaterError) -> JSONResponse:
    # A cursor that is damaged, a customer that does not exist, a number that no field takes.
    if error.code not in {"HW100", "HW106", "HW108"}:
        raise error
    return JSONResponse({"detail": error.message}, 400)
