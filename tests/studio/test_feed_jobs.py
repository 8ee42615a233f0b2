"""Jobs of the thread of a feed: no more than tabs wait for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.machine import Future, machine
from headwater.studio import feed
from headwater.studio.feed_jobs import FeedJobs, Job
from headwater.studio.limits import ANSWERS, VALUE_BYTES
from headwater.studio.tab import Tab
from tests.studio.locally import local_page
from tests.studio.shop import Shop, ignore, make_shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = make_shop()
    with made.app.open(str(tmp_path / "shop.db"), on_error=ignore) as space:
        made.counted.value = 1
        space.sync()
        yield made


def _carried_out(jobs: FeedJobs) -> None:
    job = jobs.next(0.0)
    assert isinstance(job, Job)
    assert job.carry_out()


def test_jobs_are_done_in_their_order_and_looks_at_the_same_time_are_one() -> None:
    jobs, done = FeedJobs(), list[int]()
    jobs.add(lambda: done.append(1))
    for _ in range(1000):
        jobs.look()
    jobs.add(lambda: done.append(2))
    _carried_out(jobs)
    assert jobs.next(0.0) == "look"
    _carried_out(jobs)
    assert done == [1, 2]
    assert jobs._signals.qsize() == 0  # type: ignore[attr-defined]  # that of threads has it


def test_what_nobody_waits_for_any_more_is_not_kept() -> None:
    jobs, done = FeedJobs(), list[int]()
    kept = jobs.add(lambda: done.append(1))
    for _ in range(1000):
        assert jobs.add(lambda: done.append(2)).cancel()
    assert len(jobs) == 1
    assert jobs._signals.qsize() == 1  # type: ignore[attr-defined]  # that of threads has it
    _carried_out(jobs)
    assert (kept.done(), done) == (True, [1])
    assert jobs.add(lambda: done.append(3)).cancel()
    assert jobs.next(0.0) == "nothing"


def test_what_was_asked_before_the_end_is_answered() -> None:
    jobs, done = FeedJobs(), list[int]()
    for number in range(3):
        jobs.add(lambda number=number: done.append(number))  # type: ignore[misc]  # a default binds it
    jobs.stop()
    while (job := jobs.next(0.0)) != "stop":
        assert isinstance(job, Job)
        job.carry_out()
    assert done == [0, 1, 2]


def test_questions_that_come_and_go_do_not_pile_up_behind_a_slow_answer(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shop.counted.value == 1
    waits, goes_on, feeds = threading.Event(), threading.Event(), list[feed.SpaceFeed]()
    answer = feed.SpaceFeed._answer

    def slow(self: feed.SpaceFeed, *words: Any, **more: Any) -> feed.Answered:
        feeds.append(self)
        waits.set()
        assert goes_on.wait(60.0)
        return answer(self, *words, **more)

    with local_page(str(tmp_path / "shop.db")) as page:
        monkeypatch.setattr(feed.SpaceFeed, "_answer", slow)
        page.send(t="ask", n=1, q={"type": "branches"})
        assert waits.wait(60.0)
        for number in range(2, 1000):
            page.send(t="watch", n=number, q={"type": "branches"})
            page.send(t="unwatch", n=number)
        # A second hello ends the connection: all frames before it were read.
        page.send(t="hello")
        try:
            assert page.code() == 4400
            assert len(feeds[0]._jobs) <= 1
        finally:
            goes_on.set()


def test_a_tab_has_a_few_answers_at_the_same_time(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.counted.value == 1
    asked: list[Future[feed.Answered]] = []

    def never(*_: object, **__: object) -> Future[feed.Answered]:
        asked.append(machine().future())
        return asked[-1]

    with local_page(str(tmp_path / "shop.db")) as page:
        monkeypatch.setattr(feed.SpaceFeed, "ask", never)
        for number in range(1, 30):
            page.send(t="watch" if number % 2 else "ask", n=number, q={"type": "branches"})
        page.send(t="hello")
        assert page.code() == 4400
        assert len(asked) == ANSWERS


def test_a_tab_keeps_no_answer(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tabs, begin = list[Tab](), Tab._listen

    def noted(self: Tab, watch: Any) -> None:
        tabs.append(self)
        begin(self, watch)

    monkeypatch.setattr(Tab, "_listen", noted)
    with local_page(str(tmp_path / "shop.db")) as page:
        page.watch("document", address="shop.count")
        shop.counted.value = 2
        assert page.delta()["record"]["value"]["text"] == "2"
        [watch] = tabs[0]._watches.values()
        held = [value for value in vars(watch).values() if isinstance(value, bytes)]
        assert sum(map(len, held)) < 100 < VALUE_BYTES
        assert watch.view is None
