"""A server in a process of its own, and how much memory it takes while somebody does not read, or sends too much."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.access.access_control import AccessControl
from headwater.access.rights import Right
from headwater.host.system_clock import SystemClock
from headwater.store.commit import Committed, SetDoc
from headwater.sync.frame_limits import FRAME_BYTES_MAX
from headwater.sync.frames import Docs, News, Ping, Pong, Watch
from tests.server.running import ServeProcess, settle_in
from tests.system.attacks.raw import BINARY, Raw
from tests.system.attacks.served import doc


def peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


@pytest.mark.slow
def test_memory_is_bounded_for_slow_readers_and_announced_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    token, _ = AccessControl(store, SystemClock()).create(space="home", can=Right.OWN)
    with ServeProcess(store) as server:
        with Raw.into(server.port, token, "home") as writer, Raw.into(server.port, token, "home") as reader:
            reader.say(Watch(1, ((doc("a"), 0),)))
            reader.expect(Docs)
            number = 0

            def write(count: int) -> None:
                nonlocal number
                for _ in range(count):
                    number += 1
                    assert isinstance(writer.write(number, SetDoc(doc("a"), bytes(1 << 20))), Committed)
                    reader.expect(News)

            write(20)
            usual = peak_kib(server.pid)
            # Ten who stop reading, while 50 MB are written: each may hold up some, and no more.
            slow = [Raw.into(server.port, token, "home") for _ in range(10)]
            for each in slow:
                each.say(Watch(1, ((doc("a"), 0),)))
            write(50)
            grown = peak_kib(server.pid) - usual
            assert grown < 10 * 8 * 1024, f"{usual:,} KiB grew by {grown:,}"
            # And fifty who announce as much as they may, and send a little of it.
            for each in slow:
                each.quit()
            usual = peak_kib(server.pid)
            talkers = [Raw.into(server.port, token, "home") for _ in range(50)]
            for each in talkers:
                each.frame(BINARY, bytes(1000), size=FRAME_BYTES_MAX)
            writer.say(Ping(1))
            writer.expect(Pong)
            grown = peak_kib(server.pid) - usual
            assert grown < 20 * 1024, f"{usual:,} KiB grew by {grown:,}"
            for each in talkers:
                each.quit()
        server.end()
        assert server.wait() == 0
