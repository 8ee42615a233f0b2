"""The shop of the tutorial as a web service with a live page: `uvicorn web:web --timeout-graceful-shutdown 1`."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import HTMLResponse, StreamingResponse
from shop import app, buy, fill, view

import headwater as hw

pages: set[asyncio.Event] = set()


@app.sink
def push() -> None:
    view()
    for changed in pages:
        changed.set()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    async with app.aopen("shop.db"):
        fill()
        yield


web = FastAPI(lifespan=lifespan)


@web.post("/buy/{name}")
async def order(name: str, count: int = 1, idempotency_key: Annotated[str | None, Header()] = None) -> dict[str, int]:
    event = buy.once(idempotency_key, by="web") if idempotency_key else buy
    try:
        return {"left": await event.send(name, count)}
    except hw.EventRejectedError as error:
        raise HTTPException(409, error.facts["reason"]) from error
    except hw.EventReusedError as error:
        raise HTTPException(422, "this key belongs to another order") from error


@web.get("/live")
async def live() -> StreamingResponse:
    async def lines() -> AsyncGenerator[str, None]:
        changed = asyncio.Event()
        pages.add(changed)
        try:
            while True:
                yield f"data: {json.dumps(view())}\n\n"
                await changed.wait()
                changed.clear()
        finally:
            pages.remove(changed)

    return StreamingResponse(lines(), media_type="text/event-stream")


@web.get("/")
async def page() -> HTMLResponse:
    return HTMLResponse(PAGE)


PAGE = """<!doctype html>
<title>Shop</title>
<pre id="view"></pre>
<button onclick="buy('tea')">Buy tea</button> <button onclick="buy('cake')">Buy cake</button>
<p id="answer"></p>
<script>
  const put = (id, value) => document.getElementById(id).textContent = JSON.stringify(value, null, 2)
  new EventSource("/live").onmessage = event => put("view", JSON.parse(event.data))
  const buy = async name => {
    const headers = {"Idempotency-Key": crypto.randomUUID()}
    const answer = await fetch("/buy/" + name, {method: "POST", headers})
    put("answer", await answer.json())
  }
</script>"""
