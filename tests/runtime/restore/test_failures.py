"""Results that were made of another function's failure: as good as that failure, in whichever opening it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.store.observations import Called, Extra, encode_observation, fingerprint_of
from headwater.testing import probe
from headwater.values.address import doc_key
from headwater.values.ids import MAIN
from tests.runtime.restore.kit import outcome, reason


class Shop:
    """`per` fails without a rate; `label` catches that."""

    def __init__(self) -> None:
        self.app = hw.App("shop")
        self.rate = rate = self.app.cell("rate", 5)
        self.text = text = self.app.cell("text", "no rate")

        @self.app.computed
        def per() -> int:
            if not rate.value:
                raise ZeroDivisionError(text.value)
            return 100 // rate.value

        @self.app.computed
        def label() -> str:
            try:
                return f"each {per()}"
            except ZeroDivisionError as error:
                return str(error)

        @self.app.computed
        def shouted() -> str:
            return label().upper()

        self.per, self.label, self.shouted = per, label, shouted

    def runs(self, space: hw.Space) -> tuple[int, int, int]:
        return space.runs(self.per), space.runs(self.label), space.runs(self.shouted)


def fail(shop: Shop) -> None:
    assert shop.label() == "each 20"
    shop.rate.value = 0
    assert shop.shouted() == "NO RATE"


def test_fallback_is_made_anew_when_what_failed_is_well_again_after_a_restart(tmp_path: Path) -> None:
    shop = Shop()
    with shop.app.open(tmp_path / "shop.db"):
        fail(shop)
    with shop.app.open(tmp_path / "shop.db"):
        shop.rate.value = 5
        assert shop.label() == "each 20"
        assert shop.shouted() == "EACH 20"
        assert shop.per() == 20


def test_fallback_is_made_anew_when_what_failed_was_mended_before_the_stop(tmp_path: Path) -> None:
    shop = Shop()
    with shop.app.open(tmp_path / "shop.db"):
        fail(shop)
        shop.rate.value = 5
    with shop.app.open(tmp_path / "shop.db"):
        assert shop.shouted() == "EACH 20"


def test_fallback_is_made_anew_when_what_failed_was_mended_by_another_program(tmp_path: Path) -> None:
    shop = Shop()
    with shop.app.open(tmp_path / "shop.db"):
        fail(shop)
    with hw.App("other").open(tmp_path / "shop.db") as space:
        space.cell("shop.rate", int).value = 5
    with shop.app.open(tmp_path / "shop.db"):
        assert shop.shouted() == "EACH 20"


def test_fallback_is_restored_while_what_failed_fails_in_the_same_way(tmp_path: Path) -> None:
    shop = Shop()
    with shop.app.open(tmp_path / "shop.db"):
        fail(shop)
    with shop.app.open(tmp_path / "shop.db") as space:
        assert outcome(space) == (2, 0, 1)
        assert reason(space, "per") == "its last run failed: it is tried again"
        assert shop.shouted() == "NO RATE"
        assert shop.runs(space) == (1, 0, 0)
        shop.text.value = "none"
        assert shop.shouted() == "NONE"
        assert shop.runs(space) == (2, 1, 1)


def test_result_is_not_restored_if_what_it_was_made_of_has_failed_since_unseen(tmp_path: Path) -> None:
    shop = Shop()
    with shop.app.open(tmp_path / "shop.db"):
        assert shop.label() == "each 20"
        shop.rate.value = 0
        with pytest.raises(ZeroDivisionError):
            shop.per()
    with shop.app.open(tmp_path / "shop.db") as space:
        assert "whether shop.per fails" in reason(space, "label")
        assert shop.label() == "no rate"


def test_fallback_is_not_restored_if_nothing_is_kept_of_the_failure(tmp_path: Path) -> None:
    shop = Shop()
    with shop.app.open(tmp_path / "shop.db"):
        fail(shop)
    with shop.app.open(tmp_path / "shop.db") as space:
        space._opening.run_cache.forget(MAIN, [doc_key("shop.per")])
    with shop.app.open(tmp_path / "shop.db") as space:
        assert outcome(space) == (1, 1, 1)
        shop.rate.value = 5
        assert shop.shouted() == "EACH 20"


def handled(shop: Shop) -> Callable[[], list[str]]:
    said = shop.app.cell("said", list[str]())

    @shop.app.handler
    def say() -> None:
        said.append(shop.shouted())

    def look() -> list[str]:
        say.send()
        return said.value[-1:]

    return look


def called(shop: Shop) -> Callable[[], list[str]]:
    return lambda: [shop.shouted()]


def shown(shop: Shop) -> Callable[[], list[str]]:
    said: list[str] = []

    @shop.app.sink
    def show() -> None:
        said.append(shop.shouted())

    return lambda: said[-1:]


def shown_quietly(shop: Shop) -> Callable[[], list[str]]:
    said: list[str] = []

    @shop.app.sink(resume="quiet")
    def show() -> None:
        try:
            said.append(f"EACH {shop.per()}")
        except ZeroDivisionError:
            said.append("NO RATE")

    return lambda: said[-1:]


def materialized(shop: Shop) -> Callable[[], list[str]]:
    index = shop.app.cell("index", {"said": ""})

    @shop.app.materializer(writes=[index])
    def fill() -> None:
        try:
            index.key("said").value = f"EACH {shop.per()}"
        except ZeroDivisionError:
            index.key("said").value = "NO RATE"

    return lambda: [index.value["said"]]


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("reader", [called, handled, shown, shown_quietly, materialized])
def test_every_kind_of_reader_finds_the_end_of_a_failure(
    reader: Callable[[Shop], Callable[[], list[str]]], crash: bool
) -> None:
    shop = Shop()
    look = reader(shop)
    with probe(shop.app, idempotency=False) as t:
        assert look() == ["EACH 20"]
        shop.rate.value = 0
        assert look() == ["NO RATE"]
        t.restart(crash=crash)
        shop.rate.value = 5
        assert look() == ["EACH 20"]
        t.restart(crash=crash)
        shop.rate.value = 0
        t.restart(crash=crash)
        assert look() == ["NO RATE"]


def test_failure_of_an_async_function_is_part_of_what_its_reader_observed() -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 5)

    @app.computed
    async def per() -> int:
        found = rate.value
        await asyncio.sleep(0.01)
        return 100 // found

    @app.computed
    def label() -> str:
        try:
            return f"each {per()}"
        except ZeroDivisionError:
            return "no rate"

    seen: list[str] = []

    @app.sink
    def show() -> None:
        try:
            seen.append(label())
        except hw.NotReadyError:
            seen.append("...")

    with probe(app, idempotency=False) as t:
        t.advance("1s")
        rate.value = 0
        t.advance("1s")
        t.restart()
        t.advance("1s")
        rate.value = 5
        t.advance("1s")
    assert seen == ["...", "each 20", "no rate", "no rate", "each 20"]


def test_no_reader_of_an_async_function_that_failed_gets_an_older_result_while_it_runs_again() -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 5)
    seen: list[int] = []

    @app.computed
    async def per() -> int:
        found = rate.value
        await asyncio.sleep(0.01)
        return 100 // found

    @app.computed(eager=True)
    def doubled() -> int:
        seen.append(per())
        return 2 * seen[-1]

    with probe(app, idempotency=False) as t:
        t.advance("1s")
        rate.value = 0
        t.advance("1s")
        assert seen == [20]
        t.restart()
        t.advance("1s")
        assert seen == [20]
        with pytest.raises(ZeroDivisionError):
            doubled()
        t.restart()
        t.advance("1s")
        with pytest.raises(ZeroDivisionError):
            doubled()
        assert all(isinstance(each.__cause__, ZeroDivisionError) for each in t.errors)


def part(p: hw.Builder, rate: hw.Cell[int]) -> dict[str, Any]:
    @p.computed
    def per() -> int:
        return 100 // rate.value

    @p.computed
    def label() -> str:
        try:
            return f"each {per()}"
        except ZeroDivisionError:
            return "no rate"

    return {"label": label}


@pytest.mark.parametrize("stored", [True, False])
def test_piece_that_is_stopped_and_started_finds_the_end_of_a_failure(stored: bool) -> None:
    app = hw.App("shop")
    rate = app.cell("rate", 5)
    pattern = hw.pattern(part)
    with app.open("memory:") as space:
        piece = space.start(pattern, "one", rate=rate)
        assert piece.outputs["label"]() == "each 20"
        rate.value = 0
        assert piece.outputs["label"]() == "no rate"
        piece.stop()
        if stored:
            space.sync()
        rate.value = 5
        piece = space.start(pattern, "one", rate=rate)
        assert piece.outputs["label"]() == "each 20"


def test_failure_whose_text_cannot_be_made_is_a_failure() -> None:
    class BadError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert fingerprint_of(BadError()) == fingerprint_of(BadError())
    assert fingerprint_of(BadError()) != fingerprint_of(ValueError())


@pytest.mark.parametrize("index", [2, -1])
def test_row_whose_calls_are_of_nothing_that_it_read_is_none(tmp_path: Path, index: int) -> None:
    shop = Shop()
    with shop.app.open(tmp_path / "shop.db") as space:
        fail(shop)
        space.sync()
        # As a program that means harm would write it: the same read twice, and a call of none of them.
        read = (doc_key("shop.per"), (), 0)
        code = space.nodes[shop.label].taken_fingerprint()
        called = Extra(calls=(Called(index, (("text", "x"),), b"12345678"),))
        space._opening.replica.observations.put(
            doc_key("shop.label"), encode_observation(code, [read, read], called), ()
        )
    with shop.app.open(tmp_path / "shop.db") as space:
        assert reason(space, "label") == "what is kept of it cannot be read"
        assert shop.label() == "no rate"
