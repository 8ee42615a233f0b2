"""Rule 33: what holds across spaces, without a common snapshot and without a common commit.

Read your writes, reads of a space that never go back, causal delivery, current values at quiet, one effect for each
event and post.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.host.space_facade import opening_of
from headwater.values.address import doc_key

Step = tuple[str, int]

STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "near", "send", "fail", "post", "restart"]), st.integers(1, 5)), max_size=12
)


class Ledger:
    """`shop` sends units to `bank`, and shows what `bank` makes of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shop, self.bank = hw.App("shop"), hw.App("bank")
        rate, taken = self.bank.cell("rate", 1), self.bank.cell("taken", 0)
        posted, count = self.bank.cell("posted", 0), self.shop.cell("count", 0)
        self.rate, self.taken, self.posted, self.count = rate, taken, posted, count
        self.shown: list[tuple[int, int, int]] = []
        self.decided: list[bool] = []
        self.near: hw.Space | None = None

        @self.bank.computed
        def worth() -> int:
            return taken.value * rate.value

        @self.bank.handler
        def take(units: int) -> None:
            assert self.near is not None
            # Causal delivery: the commit that has sent this is on disk.
            self.decided.append(not opening_of(self.near).replica.is_layered(doc_key("shop.count")))
            taken.value += units

        @self.shop.handler
        def sell(units: int, *, fails: bool) -> None:
            count.value += units
            take.send(units)
            if fails:
                raise hw.Reject("no")

        @self.shop.sink
        def show() -> None:
            self.shown.append((count.value, rate.value, worth()))

        self.worth, self.sell = worth, sell

    @contextmanager
    def open(self) -> Iterator[tuple[hw.Space, hw.Space]]:
        bank, shop = self.bank.opening(self.folder / "bank.db"), self.shop.opening(self.folder / "shop.db")
        with hw.together(bank, shop) as (far, near):
            self.near = near
            yield far, near


def play(folder: Path, steps: Sequence[Step]) -> None:
    """Compare each step with three numbers: the rate, the units that were sent, and those that were posted."""
    rate, sent, posted = 1, 0, 0
    todo = list(steps)
    while True:
        ledger = Ledger(folder)
        with ledger.open() as (_, near):
            while todo and todo[0][0] != "restart":
                kind, number = todo.pop(0)
                if kind == "write":
                    rate = ledger.rate.value = number
                    assert ledger.rate.value == number
                    assert ledger.worth() == ledger.taken.value * number
                elif kind == "near":
                    with near.transaction():
                        ledger.posted.post.increment(number)
                    posted += number
                elif kind == "post":
                    ledger.posted.post.increment(number)
                    posted += number
                elif kind == "fail":
                    with pytest.raises(hw.EventRejectedError):
                        ledger.sell.send(number, fails=True).result("60s")
                else:
                    ledger.sell.send(number, fails=False).result("60s")
                    sent += number
            near.delivered("60s")
            near.settle()
            assert (ledger.taken.value, ledger.posted.value, ledger.count.value) == (sent, posted, sent)
            assert ledger.shown[-1:] in ([], [(sent, rate, sent * rate)])
            assert all(ledger.decided)
        if not todo:
            return
        todo.pop(0)


@given(steps=STEPS)
def test_each_send_and_post_has_one_effect_and_at_quiet_everything_shown_is_current(steps: list[Step]) -> None:
    with TemporaryDirectory(prefix="headwater-spaces-") as folder:
        play(Path(folder), steps)


def test_a_handler_runs_after_the_commit_of_its_sender_is_on_disk(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with ledger.open() as (_, near):
        for number in range(5):
            ledger.sell.send(number, fails=False)
        near.delivered("60s")
        assert ledger.decided == [True] * 5


def test_reads_of_a_space_never_go_back(tmp_path: Path) -> None:
    """Also where the near space settles between two writes of one far block, and other sessions write."""
    ledger = Ledger(tmp_path)
    with ledger.open() as (far, near):
        for number in range(2, 30):
            if number % 3:
                ledger.rate.value = number
            else:
                with far.transaction():
                    ledger.rate.value = 0
                    ledger.rate.value = number
            near.settle()
        rates = [rate for _, rate, _ in ledger.shown]
        assert rates == sorted(rates)
        assert rates[-1] == 29
