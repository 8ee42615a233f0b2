"""Rules as authors declare them: what cannot be meant is refused, with what is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, RuleError
from headwater.host.space_facade import opening_of


class Order(hw.Doc):
    number: int
    seller: str = ""
    state: str = "open"


class Other(hw.Doc):
    state: str = "open"


def collection(*rules: Any, **options: Any) -> hw.Collection[Order]:
    return hw.App("shop").collection(Order, rules=list(rules), **options)


def test_a_rule_is_stored_with_the_record() -> None:
    made = collection(
        hw.allow("clerk", read=True, create=True, write=True, delete=True),
        hw.allow("courier", read=True, write=[Order.state]),
        hw.allow("seller", create="own", write="own", delete="own"),
        owner=Order.seller,
    )
    rules = made.record().rules
    assert rules.owner == "seller"
    assert [(rule.role, rule.read, rule.create, rule.write, rule.delete) for rule in rules.rules] == [
        ("clerk", True, True, True, True),
        ("courier", True, False, ("state",), False),
        ("seller", False, "own", "own", "own"),
    ]


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: hw.allow(""), "no role"),
    (lambda: hw.allow("a b"), "no role"),
    (lambda: hw.allow("x" * 65), "no role"),
    (lambda: hw.allow(5), "no role"),  # type: ignore[arg-type]
    (lambda: hw.allow("a", read="own"), "scope='user'"),  # type: ignore[arg-type]
    (lambda: hw.allow("a", read=1), "read is True or False"),  # type: ignore[arg-type]
    (lambda: hw.allow("a", create="mine"), "create is True, False or 'own'"),  # type: ignore[arg-type]
    (lambda: hw.allow("a", delete=[Order.state]), "delete is True, False or 'own'"),  # type: ignore[arg-type]
    (lambda: hw.allow("a", write="state"), "a list of fields"),  # type: ignore[arg-type]
    (lambda: hw.allow("a", write=[]), "a list of fields"),
    (lambda: collection(hw.allow("a", write=["state"])), "'state' is no field of Order"),
    (lambda: collection(hw.allow("a", write=[Other.state])), "Other.state is no field of Order"),
    (lambda: collection(hw.allow("a", write=[Order.state, Order.state])), "there twice"),
    (lambda: collection(hw.allow("a"), hw.allow("a", read=True)), "two rules for the role 'a'"),
    (lambda: collection(hw.allow("a", write="own")), "owner="),
    (lambda: collection("clerk"), "has 'clerk'"),
    (lambda: collection(owner=Other.state), "owner: Other.state is no field of Order"),
    (lambda: hw.App("shop").collection(Order, rules="clerk"), "a list of hw.allow"),  # type: ignore[arg-type]
    (lambda: hw.App("shop").collection(Order, rules=hw.allow("a")), "a list of hw.allow"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "says"), BAD, ids=[says for _, says in BAD])
def test_a_rule_that_cannot_be_meant_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        make()
    assert says in refused.value.message


def test_an_unknown_verb_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="raed"):
        hw.allow("a", raed=True)  # type: ignore[call-arg]


def test_embedded_types_are_checked_and_rights_are_not() -> None:
    app = hw.App("shop")
    app.collection(Order, rules=[hw.allow("clerk", read=True)])
    with app.open("memory:") as space:
        order = Order(number=1)
        order.state = "paid"
        space.sync()
        untyped = space.doc(hw.id_of(order))
        untyped.state = 5
        with pytest.raises(RuleError, match="state: expected str, got int 5"):
            space.sync()
        assert order.state == "paid"


def test_what_a_space_has_of_rules_stays_when_an_app_is_opened(tmp_path: Any, caplog: Any) -> None:
    url = str(tmp_path / "x.db")
    first, second = hw.App("shop"), hw.App("shop")
    kept = first.collection(Order, rules=[hw.allow("clerk", read=True)])
    second.collection(Order, rules=[hw.allow("thief", read=True, write=True)], indexes=[Order.state])
    with first.open(url):
        pass
    assert caplog.text == ""
    with second.open(url) as space:
        stored = opening_of(space).replica.collections["order"]
        assert stored.rules == kept.record().rules
        assert len(stored.indexes) == 1
    assert "headwater collections deploy" in caplog.text
