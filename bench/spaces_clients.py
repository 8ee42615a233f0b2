"""The programs of table `spaces`, each a process: `python -m bench.spaces_clients ROLE URL SPACE NUMBERS...`.

Must never know: what is compared.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

import headwater as hw
from headwater.access.local_token import find_local
from headwater.client.server_link import ServerLink
from headwater.host.plain_space import Space
from headwater.host.space_facade import opening_of
from headwater.store.commit import SetDoc
from headwater.sync.frames import (
    SUBPROTOCOL,
    VERSION,
    ErrorFrame,
    Hello,
    Open,
    Transact,
    Watch,
    encode_frame,
    read_server,
)
from headwater.values.address import doc_key

BATCH: Final = 1_000


class Item(hw.Doc):
    """An element of the long list."""

    title: str = ""
    done: bool = False


app = hw.App("shop")
items = app.cell("items", [], type=list[Item])
count = app.cell("count", 0)


def fill(folder: Path, documents: int) -> None:
    """A space with a list of so many documents."""
    folder.mkdir(mode=0o700)
    with app.open(f"{folder}/") as space:
        made: list[Item] = []
        for start in range(0, documents, BATCH):
            with space.transaction():
                made += [Item(title=f"item {start + number}") for number in range(BATCH)]
        with space.transaction():
            items.value = made
            count.value = 7
        space.sync()


class _Questions:
    """Counts the questions that were waited for."""

    def __init__(self) -> None:
        self.asked = 0
        self.link: ServerLink | None = None
        inner = ServerLink.ask

        def ask(link: ServerLink, frame: object, timeout: float | None = None) -> object:
            self.asked += 1
            self.link = link
            return inner(link, frame, timeout)  # type: ignore[arg-type]  # as it was called

        ServerLink.ask = ask  # type: ignore[assignment,method-assign]  # counts, and asks


def _go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _held(space: Space) -> int:
    return opening_of(space).replica.document_count


def first(url: str, space: str) -> dict[str, object]:
    """Open the space and read a cell."""
    questions = _Questions()
    _go()
    begun, spent = time.perf_counter(), time.process_time()
    with app.open(f"{url}/{space}") as opened:
        assert count.value == 7  # as it was filled
        seconds, cpu = time.perf_counter() - begun, time.process_time() - spent
        assert questions.link is not None
        return {
            "seconds": seconds,
            "cpu": cpu,
            "documents": _held(opened),
            "questions": questions.asked,
            "bytes": questions.link.heard_bytes,
        }


def walk(url: str, space: str) -> dict[str, object]:
    """Read all elements of the list."""
    questions = _Questions()
    _go()
    with app.open(f"{url}/{space}") as opened:
        found = items.value
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        questions.asked, spent, most = 0, time.process_time(), 0
        for number, item in enumerate(found):
            assert item.title == f"item {number}"
            if number % 100 == 0:
                most = max(most, _held(opened))
        return {
            "count": len(found),
            "questions": questions.asked,
            "held": most,
            "cpu": time.process_time() - spent,
            "kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,
        }


def write(url: str, space: str, writes: str) -> dict[str, object]:
    """Milliseconds of each write until it is on disk."""
    times: list[float] = []
    with app.open(f"{url}/{space}") as opened:
        count.value = -1
        opened.sync()
        _go()
        for number in range(int(writes)):
            begun = time.perf_counter()
            count.value = number
            opened.sync()
            times.append((time.perf_counter() - begun) * 1e3)
            time.sleep(0.002)
    return {"times": times}


def openings(url: str, space: str) -> dict[str, object]:
    """Ask for everything of the app with 50,000 links again and again, as a client does that gives no limit."""
    questions = _Questions()
    _go()
    while True:
        with app.open(f"{url}/{space}"):
            assert questions.link is not None
            questions.link.ask(Watch(0, (), ("space/shop.",), None, 50_000))


def hot(url: str, space: str) -> dict[str, object]:
    """Write as much as the server takes."""
    with app.open(f"{url}/{space}"):
        _go()
        number = 0
        while True:
            number += 1
            count.value = number


def many(url: str, name: str, spaces: str, idle_s: str) -> dict[str, object]:
    """A light client in each of so many spaces, with a write and a watched prefix each."""
    return asyncio.run(_many(url, name, int(spaces), float(idle_s)))


async def _many(url: str, name: str, spaces: int, idle_s: float) -> dict[str, object]:
    await asyncio.to_thread(_go)
    local = find_local("127.0.0.1", urlsplit(url).port or 0)
    assert local is not None
    clients = [await _light(url, local.token, f"{name}{number}") for number in range(spaces)]
    await asyncio.sleep(idle_s)
    print(json.dumps({"spaces": len(clients)}), flush=True)
    # They stay until this process is ended.
    await asyncio.Event().wait()
    return {}


async def _light(url: str, token: str, space: str) -> ClientConnection:
    client = await connect(
        f"{url}/",
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        additional_headers={"Authorization": f"Bearer {token}"},
        compression=None,
        ping_interval=None,
    )
    written = Transact(1, (SetDoc(doc_key("shop.count"), 1),))
    watch = Watch(1 << 48, (), ("space/shop.",))
    for frame in (Hello((VERSION,), "bench"), Open(space), written, watch):
        await client.send(encode_frame(frame))
        answer = read_server(bytes(await client.recv()))  # type: ignore[arg-type]  # frames are binary
        assert not isinstance(answer, ErrorFrame), answer
    return client


ROLES: Final[dict[str, Callable[..., dict[str, object]]]] = {
    role.__name__: role for role in (first, walk, write, openings, hot, many)
}

if __name__ == "__main__":
    print(json.dumps(ROLES[sys.argv[1]](*sys.argv[2:])), flush=True)
