"""Hunting a mutant: what counts as evidence, and when the search ends."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import msgspec
import pytest

from sim.mutants import run, table
from sim.mutants.catalog import MUTANTS
from sim.mutants.hunt import Finding, Hunt, Search, names_of
from sim.mutants.mutant import Mutant
from sim.mutants.reach import Sieve, reached
from sim.worker import Result

pytestmark = pytest.mark.pure("mistakes are planted in sources")

NOISY = "tests.sim.noisy"
LOSES = Mutant(
    "loses",
    "test",
    "values.shrink:shrunk",
    "dict(table) if size > SLACK_BYTES and size > ENTRY_BYTES * (len(table) + 1) else table",
    "dict[K, V]()",
    "V",
    (NOISY,),
)
HARMLESS = msgspec.structs.replace(LOSES, name="harmless", new="dict(table)")


def test_a_world_that_fails_without_the_mutant_is_no_evidence() -> None:
    found = Hunt(jobs=1, worlds=9).hunt(LOSES)
    assert (found.verdict, found.kind, found.seed, found.rule) == ("killed", f"small-{NOISY}", 5, "V")
    assert found.worlds == 5


def test_a_mutant_survives_if_no_world_breaks_another_rule_than_without_it() -> None:
    found = Hunt(jobs=1, worlds=6).hunt(HARMLESS)
    assert (found.verdict, found.worlds) == ("survived", 6)


def test_a_result_beside_that_of_a_failed_world_is_not_counted() -> None:
    search = Search(iter([("k", 1), ("k", 2), ("k", 3)]), 60.0, lambda: None)
    assert list(islice(search.names(), 2)) == [("k", 1), ("k", 2)]
    search.take(Result(kind="k", seed=1, status="failed"))
    search.take(Result(kind="k", seed=2, status="ok"))
    assert search.played == 1
    search.claims.clear()
    assert list(search.names()) == [("k", 2), ("k", 3)], "the rest, if that was no evidence"


def test_a_mutant_has_survived_the_worlds_of_the_seeds_only_if_all_of_them_were_played() -> None:
    names = [(f"small-{NOISY}", seed) for seed in range(1, 4)]
    sieve = Sieve(seeds=40, worlds={"test.harmless": names}, broken={})
    assert run.in_order(Hunt(jobs=1), HARMLESS, sieve).worlds == 40
    assert run.in_order(Hunt(jobs=1, seconds=0.0), HARMLESS, sieve).worlds == 0


def test_an_equivalent_mutant_is_not_played() -> None:
    found = Hunt(jobs=1).hunt(msgspec.structs.replace(LOSES, equivalent="a reason"))
    assert (found.verdict, found.worlds, found.text) == ("equivalent", 0, "a reason")


def test_a_mutant_whose_kinds_are_not_asked_for_is_not_played() -> None:
    assert Hunt(jobs=1, kinds=("program",)).hunt(LOSES).verdict == "unplayed"


def test_kinds_take_turns() -> None:
    names = names_of(["program", "shared"])
    assert [next(names) for _ in range(3)] == [("small-program", 1), ("small-shared", 1), ("program", 2)]


def test_unchanged_worlds_say_how_often_they_come_to_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.mutants.reach.KINDS", (NOISY,))
    monkeypatch.setattr("sim.mutants.hunt.KINDS", ())
    (found,) = reached([LOSES], seconds=20.0, worlds=6, jobs=1, kinds=None)
    assert found.reached == found.worlds - 4


def test_the_table_counts_and_names_new_survivors() -> None:
    killed = Finding(
        area="sync", name="not_sent_again", verdict="killed", kind="small-shared", seed=3, rule="L1", worlds=7
    )
    left = Finding(area="store", name="reads_unchecked", verdict="survived", worlds=90)
    text = table.summary([killed, left])
    assert "to the first kill: 7 worlds" in text
    assert "store.reads_unchecked" in text
    assert table.new_survivors([killed, left]) == [left]
    page = table.page([killed, left])
    assert "| not_sent_again | `ClientSession.lost` | L1 | shared (L1) after 7 worlds |" in page


def test_wrong_use_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["--area", "nowhere"], ["--name", "nothing"], ["--json", "/no/such/folder/file.json"]):
        with pytest.raises(SystemExit) as ended:
            run.main(args)
        assert ended.value.code == 2
    assert "hw mutants: there is no such mutant" in capsys.readouterr().err


def test_findings_of_mutants_that_are_gone_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "findings.json"
    first = MUTANTS[0]
    known = Finding(area=first.area, name=first.name, verdict="killed")
    gone = Finding(area="store", name="no_such_mutant", verdict="killed")
    file.write_bytes(msgspec.json.encode([known, gone]))
    assert list(run._read(file).values()) == [known]
