"""What import-linter cannot say: its purity contracts fail on packages that do not exist yet.

So they name those that do, and this test notices a new one of the core that they forgot. (The order of the
packages has no such gap: that contract is exhaustive.)
"""

import re

import pytest

from tests.structure.project import PACKAGE, ROOT, read_pyproject

CORE = ["errors", "values", "store", "cells", "scheduler", "sync", "workflow", "declare", "runtime"]
"""The packages without IO, which decide."""


@pytest.mark.parametrize("contract_id", ["repeatable", "no-files"])
def test_purity_contract_names_every_core_package_there_is(contract_id: str) -> None:
    contracts = {contract["id"]: contract for contract in read_pyproject()["tool"]["importlinter"]["contracts"]}
    there = [name for name in CORE if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()]
    named = contracts[contract_id]["source_modules"]
    assert named == [f"headwater.{name}" for name in there], (
        f"pyproject.toml, import contract {contract_id!r}: source_modules should name these packages"
    )


def test_the_product_does_not_know_the_tools_of_tests() -> None:
    """By name either: import-linter does not see `import_module("headwater.testing")`."""
    for path in PACKAGE.rglob("*.py"):
        if "testing" not in path.relative_to(PACKAGE).parts:
            text = path.read_text(encoding="utf-8")
            assert "powerloss" not in text, path
            assert not re.search(r"""["']headwater\.testing""", text), path


def test_no_variable_of_the_environment_changes_what_files_are_opened_through() -> None:
    """A test that still sets it would test nothing."""
    name = "HEADWATER" + "_VFS"
    for folder in ("src", "sim", "tests", "bench", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            assert name not in path.read_text(encoding="utf-8"), path
