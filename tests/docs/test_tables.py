"""Tables in the documents that are made from tables in the code say the same."""

import re
from enum import Enum
from pathlib import Path
from typing import get_args

from headwater.cells import lifecycle
from headwater.host.flows.posting import BODY_MAX
from headwater.host.ticket import TicketState
from headwater.scheduler import event, lineage, node
from headwater.workflow import limits, phases
from headwater.workflow.model import Outcome, Status
from headwater.workflow.policy import DEFAULT

ROOT = Path(__file__).resolve().parents[2]


def table_below(path: Path, header: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows of the table with this header."""
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if cells(line) == header:
            break
    else:
        raise AssertionError(f"{path.name} has no table | {' | '.join(header)} |")
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


def cells(line: str) -> tuple[str, ...]:
    return tuple(re.split(r"\s*\|\s*", line.strip().strip("|").strip())) if line.startswith("|") else ()


def test_life_of_a_transaction_is_the_one_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "cells.md", ("status", "signal", "status after"))
    in_code: list[tuple[Enum, Enum, Enum]] = [(*before, after) for before, after in lifecycle.TRANSITIONS.items()]
    assert sorted(shown) == sorted(tuple(str(each.value) for each in row) for row in in_code)


def test_life_of_a_node_is_the_one_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "scheduler.md", ("status", "signal", "status after"))
    in_code: list[tuple[Enum, Enum, Enum]] = [(*before, after) for before, after in node.TRANSITIONS.items()]
    assert sorted(shown) == sorted(tuple(str(each.value) for each in row) for row in in_code)


def test_life_of_an_event_is_the_one_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "events.md", ("state", "signal", "state after"))
    in_code: list[tuple[Enum, Enum, Enum]] = [(*before, after) for before, after in event.TRANSITIONS.items()]
    assert sorted(shown) == sorted(tuple(str(each.value) for each in row) for row in in_code)


def test_states_of_a_ticket_are_those_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "guide" / "events.md", ("`ticket.state`", ""))
    assert [name for name, _ in shown] == [state.value for state in event.State] == list(get_args(TicketState))


def test_fates_of_what_sent_an_event_are_those_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "events.md", ("fate of what sent it", "the event"))
    assert {name.partition(",")[0] for name, _ in shown} == {fate.value for fate in lineage.Fate}


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    linked = re.findall(r"\]\(([\w-]+\.md)\) \| (.+) \|$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert [name for name, _ in linked] == sorted(path.name for path in folder.glob("0*.md"))
    for number, (name, title) in enumerate(linked, start=1):
        first = (folder / name).read_text("utf-8").splitlines()[0]
        assert first.startswith(f"# {number}. {title.partition(';')[0]}")


def test_links_between_documents_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)} links to {target}"


def anchors_of(path: Path) -> set[str]:
    """As they are made of headings: small letters, without signs, spaces as dashes."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_to_headings_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8")):
            found = path.parent / target if target else path
            assert anchor in anchors_of(found), f"{path.relative_to(ROOT)} links to {target}#{anchor}"


def test_every_guide_is_found_from_the_front_page() -> None:
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    guides = [path.name for path in (ROOT / "docs" / "guide").glob("*.md")]
    assert [name for name in guides if f"docs/guide/{name}" not in front] == []


def test_code_map_names_every_package_and_every_module_of_cells_and_scheduler() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "headwater"
    packages = [f"`{path.parent.name}/`" for path in source.glob("*/__init__.py")]
    modules = [f"`{path.name}`" for name in ("cells", "scheduler") for path in (source / name).glob("[a-z]*.py")]
    assert [name for name in packages + modules if name not in text] == []


def test_map_of_what_is_shared_names_every_module() -> None:
    text = (ROOT / "docs" / "internals" / "sharing.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "headwater"
    for package in ("sync", "host/serving", "host/remote"):
        table = re.search(rf"^`{package}/`[^\n]*:\n\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
        assert table is not None
        modules = {f"`{path.name}`" for path in (source / package).glob("[a-z]*.py")}
        assert set(re.findall(r"`\w+\.py`", table[1])) == modules


def test_life_of_a_run_is_the_one_in_the_code() -> None:
    header = ("step", "phase", "status", "outcome", "phase after", "status after", "outcome after")
    shown = table_below(ROOT / "docs" / "internals" / "workflows.md", header)
    assert shown == [
        (
            what.value,
            ", ".join(rule.phases),
            ", ".join(rule.statuses),
            ", ".join(rule.outcomes),
            *(str(after or "same") for after in (rule.phase, rule.status, rule.outcome)),
        )
        for what, rules in phases.STEPS.items()
        for rule in rules
    ]


def test_ways_to_go_on_after_a_run_are_those_in_the_code() -> None:
    shown = table_below(ROOT / "docs" / "internals" / "workflows.md", ("outcome", "the chain goes on", ""))
    assert [row[:2] for row in shown] == [(outcome.value, phases.restart_of(outcome).value) for outcome in Outcome]


def test_statuses_in_the_guide_are_those_in_the_code() -> None:
    header = ("what", "how it is told", "the run", "then")
    shown = table_below(ROOT / "docs" / "guide" / "workflows.md", header)
    assert {run.strip("`") for _, _, run, _ in shown} == set(Status) - {Status.ACTIVE, Status.COMMITTED}


def test_limits_of_workflows_in_the_guide_are_those_in_the_code() -> None:
    text = {row[0]: row[1] for row in table_below(ROOT / "docs" / "guide" / "workflows.md", ("limit", ""))}
    waits = ", ".join(f"{DEFAULT.delay_ms(n) // 1000} s" for n in range(1, limits.TRIES + 1))
    assert text["retries"].startswith(
        f"{limits.TRIES}, after {waits}, never more than {limits.BACKOFF_MAX_MS // 60_000} minutes"
    )
    assert text["events shown at once"].startswith(f"{limits.PEEK}, at most {limits.PEEK_MAX} ")
    assert text["asking to be woken"].startswith(f"in {limits.WAKE_MIN_MS // 1000} seconds")
    assert limits.WAKE_MAX_MS == 86_400_000
    assert text["a phase"].startswith(f"{limits.PHASE_MS // 60_000} minutes")
    asked = f"{limits.RECONCILE_TRIES} times in the background, {limits.RECONCILE_MS // 1000} seconds each"
    assert text["asking `reconcile`"] == asked
    assert text["finished runs that are kept"].replace(" ", "").startswith(str(limits.KEEP_RUNS))
    assert text["a payload over HTTP"] == f"{BODY_MAX >> 20} MiB"
