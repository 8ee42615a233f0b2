"""`headwater collections deploy`: the record of a collection becomes what an app declares."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.access.rights import Right
from headwater.server.server import Server, Serving
from tests.cli.conftest import Run

MODULE = """
import headwater as hw

class Order(hw.Doc):
    number: {number}
    state: str = "open"{more}

app = hw.App("shop")
orders = app.collection(Order, indexes=[Order.state], rules=[{rules}])
"""
Declare = Callable[..., None]


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Iterator[Declare]:
    """Write the module of the app anew."""

    def write(number: str = "int", more: str = "", rules: str = "") -> None:
        monkeypatch.delitem(sys.modules, "deployed_shop", raising=False)
        Path("deployed_shop.py").write_text(MODULE.format(number=number, more=more, rules=rules))
        Path("__pycache__").joinpath("deployed_shop.cpython-311.pyc").unlink(missing_ok=True)

    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write()
    yield write
    sys.modules.pop("deployed_shop", None)


def deploy(run: Run, *more: object, **options: Any) -> list[dict[str, Any]]:
    found = run("collections", "deploy", "deployed_shop:app", "--json", "--url", "shop.db", *more, **options).stdout
    return json.loads(found) if found else []  # type: ignore[no-any-return]


def test_fields_narrower_types_and_rules_are_replaced(run: Run, declare: Declare) -> None:
    declare(number="int | str", more="\n    colour: str = ''", rules="hw.allow('clerk', read=True)")
    [first] = deploy(run)
    assert first["collection"] == "order"
    assert "new" in first["changes"]
    run("set", "order:1", '{"number": "x"}', "--url", "shop.db", "--create")
    declare(number="int", rules="hw.allow('boss', read=True)")
    [shown] = deploy(run, "--dry-run")
    assert shown["seq"] is None
    [done] = deploy(run)
    assert done["changes"] == shown["changes"]
    assert "field number: int or str becomes int" in done["changes"]
    assert "field colour dropped: str" in done["changes"]
    assert "rules: boss" in done["changes"]
    assert deploy(run) == []
    refused = run("set", "order:1/number", '"y"', "--url", "shop.db", exit=4)
    assert "HW216: order:1/number: expected int, got str 'y'" in refused.stderr
    # What was there stays, and other fields may be written.
    run("set", "order:1/state", '"paid"', "--url", "shop.db")
    assert json.loads(run("get", "order:1", "--url", "shop.db").stdout) == {"number": "x", "state": "paid"}
    run("set", "order:1/number", '"y"', "--force", "--url", "shop.db")
    run("verify", "--url", "shop.db")


def test_an_opening_does_not_narrow_what_was_deployed(run: Run, declare: Declare) -> None:
    declare(number="int | str", rules="hw.allow('clerk', read=True)")
    deploy(run)
    declare(number="int", rules="hw.allow('thief', read=True, write=True)")
    import deployed_shop  # type: ignore[import-not-found]

    with pytest.raises(Exception, match=r"HW110.*'number'"), deployed_shop.app.open("shop.db"):
        pass
    record = json.loads(run("get", "collection:order", "--url", "shop.db").stdout)
    assert record["rules"] == [{"read": True, "role": "clerk"}]


def test_an_app_without_collections_has_nothing_to_deploy(run: Run) -> None:
    Path("bare.py").write_text('import headwater as hw\napp = hw.App("bare")\n')
    sys.path.insert(0, str(Path.cwd()))
    try:
        refused = run("collections", "deploy", "bare:app", "--url", "x.db", exit=2)
    finally:
        sys.path.remove(str(Path.cwd()))
        sys.modules.pop("bare", None)
    assert "declares no collection" in refused.stderr


def test_at_a_server_only_an_owner_deploys(
    run: Run, declare: Declare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    declare(rules="hw.allow('clerk', read=True, write=True)")
    with Server(Serving(store=tmp_path / "spaces", port=0)) as server:
        url = f"{server.url}/shop"
        [done] = json.loads(run("collections", "deploy", "deployed_shop:app", "--url", url, "--json").stdout)
        assert done["seq"]
        for right, code in ((Right.READ, 1), (Right.WRITE, 1), (Right.OWN, 0)):
            token, _ = server.access.create(space="shop", can=right)
            Path("token").write_text(token)
            declare(rules=f"hw.allow('role-{right.word}', read=True)")
            where = ["--url", url, "--token-file", "token"]
            result = run("collections", "deploy", "deployed_shop:app", *where, exit=code)
            assert ("deployed by an owner" in result.stderr) == bool(code)
