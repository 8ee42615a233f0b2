"""Tests that replace parts of compiled code are skipped on it, as they would test nothing."""

from __future__ import annotations

import sys

from headwater.host.libraries import core_form
from headwater.host.storage import Storage
from headwater.store.engine import Engine
from headwater.values.tree import ABSENT
from tests.support.compiled import is_bound_early

IS_COMPILED = core_form() == "compiled"

engine = sys.modules["headwater.store.engine"]
codec = sys.modules["headwater.values.codec"]
storage = sys.modules["headwater.host.storage"]


def test_compiled_methods_functions_and_constants_are_not_looked_up() -> None:
    assert is_bound_early(Engine, "_decide") == IS_COMPILED
    assert is_bound_early(codec, "encode") == IS_COMPILED
    assert is_bound_early(codec, "_BYTES") == IS_COMPILED


def test_limits_and_what_interpreted_modules_define_are_looked_up() -> None:
    assert not is_bound_early(engine, "FOLD_COMMITS")
    assert not is_bound_early(Storage, "_decide")
    assert not is_bound_early(storage, "GROUP_MAX")
    assert not is_bound_early(ABSENT, "name"), "an instance: assigning to it is an error already"
