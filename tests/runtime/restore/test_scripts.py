"""A script and the modules that lie beside it, which are of no package: what is changed in one counts in the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHOP = """
import decimal, functools
import headwater as hw
import pricing
from pricing import price

app = hw.App("shop")
qty = app.cell("qty", 2)

class Rates:
    VAT = decimal.Decimal("{vat}")

    @functools.cached_property
    def extra(self):
        return {extra}

    @staticmethod
    @functools.lru_cache
    def more():
        return {more}

@app.computed
def total() -> str:
    return str([price(qty.value), pricing.RATES["de"], Rates.VAT, Rates().extra, Rates.more()])

with app.open("shop.db") as space:
    print(total(), space.runs(total))
"""
PRICING = "RATES = {{'de': {de}}}\n\n\ndef price(q):\n    return q * {price}\n"
WORDS = {"vat": 19, "extra": 1, "more": 2, "de": 3, "price": 100}


def run(folder: Path, **words: object) -> str:
    given = {**WORDS, **words}
    (folder / "shop.py").write_text(SHOP.format(**given), encoding="utf-8")
    (folder / "pricing.py").write_text(PRICING.format(**given), encoding="utf-8")
    command = [sys.executable, "-B", "shop.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=300).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
def test_change_beside_a_script_is_noticed(word: str, tmp_path: Path) -> None:
    first = run(tmp_path)
    assert first == "[200, 3, Decimal('19'), 1, 2] 1"
    assert run(tmp_path) == "[200, 3, Decimal('19'), 1, 2] 0"
    changed = run(tmp_path, **{word: 7})
    assert changed.endswith("] 1")
    assert changed != first
