"""What is installed, what is promised and what is locked are one list."""

import re

import pytest

from tests.structure.project import ROOT, read_pyproject

REQUIREMENTS = ROOT / "requirements"


def requirement_lines(name: str) -> list[str]:
    lines = (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-"))]


def pins(name: str) -> dict[str, str]:
    found = re.findall(
        r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)", (REQUIREMENTS / name).read_text(encoding="utf-8"), re.MULTILINE
    )
    return dict(found)


def test_run_in_is_the_dependencies_of_the_package() -> None:
    assert requirement_lines("run.in") == read_pyproject()["project"]["dependencies"]


def test_every_requirement_is_locked() -> None:
    for name in ("run", "dev", "bench", "docs"):
        wanted = {re.split(r"[<>=!~;\[ ]", line)[0] for line in requirement_lines(f"{name}.in")}
        assert wanted <= pins(f"{name}.txt").keys(), f"requirements/{name}.txt is out of date: ./hw lock"


def test_each_lock_holds_all_of_the_one_before_at_the_same_versions() -> None:
    assert pins("run.txt").items() <= pins("dev.txt").items(), "./hw test would change what ./hw demo installed"
    assert pins("dev.txt").items() <= pins("bench.txt").items(), "./hw bench would change what ./hw test installed"
    assert pins("run.txt").items() <= pins("docs.txt").items(), (
        "the site shows commands with other libraries than users"
    )


@pytest.mark.parametrize("name", ["run.txt", "dev.txt", "bench.txt", "docs.txt"])
def test_lock_names_no_index_and_no_local_path(name: str) -> None:
    text = (REQUIREMENTS / name).read_text(encoding="utf-8")
    assert not re.search(r"://|--index|--extra-index|--find-links|--trusted-host| /\w", text)
