"""What was answered with 202 is there after a power cut."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.server.ingress.shop import Shop, key
from tests.support.power import POWER_CUT

ROOT = Path(__file__).resolve().parents[3]


def test_an_answered_post_outlives_the_process_and_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    answered: list[str] = []
    for turn in range(2):
        child = subprocess.Popen(
            [*POWER_CUT, "-m", "tests.server.ingress.server_to_kill", str(path)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        assert child.stdout is not None
        with child, httpx.Client(base_url=child.stdout.readline().strip(), trust_env=False, timeout=30) as client:

            def post(number: int, turn: int = turn, client: httpx.Client = client) -> None:
                name = f"evt-{turn}-{number}"
                try:
                    answer = client.post("/topics/orders/placed", json={"item": "tea"}, headers=key(name))
                except httpx.TransportError:
                    # Nobody knows: that is what asking again is for.
                    return
                assert answer.json() == {"id": name, "new": True}
                answered.append(name)

            with ThreadPoolExecutor(8) as pool:
                posts = [pool.submit(post, number) for number in range(200)]
                for each in posts[:20]:
                    each.result()
                child.kill()
                for each in posts:
                    each.result()
    assert len(answered) >= 40
    shop = Shop()
    with shop.app.open(str(path)) as space:
        space.workflows.drain()
    sold = [name for name, _, _ in shop.sold]
    assert set(answered) <= set(sold)
    assert len(sold) == len(set(sold))
