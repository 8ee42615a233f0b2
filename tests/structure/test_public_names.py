"""The names a user may rely on change only on purpose: by editing public_names.txt in the same commit."""

import importlib
import importlib.util
from pathlib import Path

from tests.structure.project import ROOT

DOORS = ["headwater", "headwater.core", "headwater.testing"]
STORED = Path(__file__).with_name("public_names.txt")


def find_doors() -> list[str]:
    return [door for door in DOORS if importlib.util.find_spec(door)]


def stored_names() -> set[str]:
    lines = STORED.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_public_names_are_the_stored_ones() -> None:
    actual = {f"{door}.{name}" for door in find_doors() for name in importlib.import_module(door).__all__}
    stored = stored_names()
    added = "".join(f"\n  + {name}" for name in sorted(actual - stored))
    removed = "".join(f"\n  - {name}" for name in sorted(stored - actual))
    assert actual == stored, (
        f"the public names changed. If that is meant, edit {STORED.relative_to(ROOT)} and tell users in "
        f"CHANGELOG.md; if not, mend __all__.{added}{removed}"
    )


def test_every_public_name_is_there() -> None:
    for door in find_doors():
        module = importlib.import_module(door)
        missing = [name for name in module.__all__ if not hasattr(module, name)]
        assert not missing, f"{door}.__all__ names what the module does not have: {missing}"
