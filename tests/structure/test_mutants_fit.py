"""Every mutant fits the source: one that has rotted changes nothing, and the worlds would be blamed for it."""

from collections import Counter
from types import CodeType

import pytest

from sim.mutants.catalog import AREAS, MUTANTS
from sim.mutants.mutant import PROGRAM, SHARED, SPACES, STORAGE, WORKFLOW, RottenError, mutated
from sim.mutants.survivors import SURVIVORS


def _meaning(code: CodeType) -> tuple[object, ...]:
    inner = [_meaning(each) if isinstance(each, CodeType) else each for each in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, repr(inner)


@pytest.mark.pure("mistakes are planted in sources")
def test_every_mutant_fits_exactly_once() -> None:
    rotten = []
    for mutant in MUTANTS:
        try:
            function, code = mutated(mutant)
            if _meaning(code) == _meaning(function.__code__):
                rotten.append(f"{mutant.area}.{mutant.name}: changes nothing")
        except (RottenError, SyntaxError) as error:
            rotten.append(f"{mutant.area}.{mutant.name}: {error}")
    assert rotten == []


def test_a_mutant_is_named_once_and_says_what_it_breaks_and_which_worlds_can_show_it() -> None:
    assert [name for name, count in Counter(each.name for each in MUTANTS).items() if count > 1] == []
    for area, mutants in AREAS.items():
        for mutant in mutants:
            assert mutant.area == area
            assert mutant.breaks
            assert mutant.kinds
            assert set(mutant.kinds) <= {PROGRAM, SHARED, SPACES, STORAGE, WORKFLOW}


def test_a_known_survivor_is_a_mutant_that_a_world_could_find() -> None:
    names = {f"{each.area}.{each.name}" for each in MUTANTS if not each.equivalent}
    assert set(SURVIVORS) <= names
