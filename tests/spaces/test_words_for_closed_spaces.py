"""What authors are told of spaces that are closed, or that have refused something: with names."""

from __future__ import annotations

import headwater as hw


def test_why_says_that_a_space_which_is_read_is_closed() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)

    @near.computed
    def above() -> int:
        return n.value + 1

    @near.computed
    def own() -> int:
        return 1

    near.sink(name="show")(lambda: (above(), own()))
    there = far.open("far.db")
    with near.open("near.db"):
        assert above() == 2
        assert "closed" not in hw.why(above)
        there.close()
        assert "space 'far' is closed here: it keeps the values that it has read there" in hw.why(above)
        assert "closed" not in hw.why(own)
        with far.open("far.db"):
            n.value = 5
            assert above() == 6
            assert "closed" not in hw.why(above)


def test_why_says_that_a_function_which_met_a_closed_space_is_woken_by_its_opening() -> None:
    near, far = hw.App("near"), hw.App("far")
    n, own = far.cell("n", 1), near.cell("own", 1)

    @near.computed
    def above() -> int:
        return n.value

    @near.computed
    def both() -> int:
        return own.value + n.value

    for name, function in (("first", above), ("second", both)):
        near.sink(name=name)(function)
    with near.open("near.db", on_error="log"):
        assert hw.why(above).splitlines()[-1] == "It would be woken by the opening of what was not open"
        assert "a change of near.own, or the opening of what was not open" in hw.why(both)
        with far.open("far.db"):
            assert above() == 1
            assert "opening" not in hw.why(above)


def test_what_another_space_refuses_is_reported_with_its_name() -> None:
    shop, bank = hw.App("shop"), hw.App("bank")
    count = shop.cell("count", 0)
    errors: list[hw.UserCodeError] = []

    @bank.handler
    def credit(amount: int) -> None:
        message = f"no account for {amount}"
        raise ValueError(message)

    @shop.handler
    def sell(amount: int) -> None:
        count.value += 1
        credit.send(amount)

    with bank.open("bank.db", on_error=lambda _: None) as there, shop.open("shop.db", on_error=errors.append) as here:
        sell.send(3).result("60s")
        here.delivered("60s")
    [told] = [str(each) for each in errors if "was not handled by" in str(each)]
    assert "in space bank:" in told
    assert there.id not in told
