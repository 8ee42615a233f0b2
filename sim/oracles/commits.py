"""What clients were told about their transactions, against the log: S1, INV-1, INV-11, I10, I11."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from headwater.values.ids import DocKey
from sim.oracles.history import History, lookup
from sim.shared.records import Record
from sim.shared.shared_app import ENSURED
from sim.shared.workload import READS

Violate = Callable[[str, str], None]

DEFAULTS = {"reg": [], "rec": {}, "board": 0, "cnt": 0, "chain": []}


def check_commits(history: History, records: Iterable[Record], violate: Violate) -> None:
    """Every transaction is in the log once or not at all, as its client was told, and its reads were current."""
    ledger = Counter(_list(history, "ledger"))
    paid = Counter(_list(history, "paid"))
    for number, times in sorted((ledger + paid).items()):
        if ledger[number] > 1 or paid[number] > 1:
            violate("I11", f"the event {number} was handled {times} times")
    numbered = Counter((each.session, each.local_seq) for each in history.entries.values())
    for (session, local_seq), times in sorted(numbered.items()):
        if times > 1:
            violate("INV-11", f"commit {local_seq} of session {session} is in the log {times} times")
    committed: set[int] = set()
    for record in records:
        places = _places(history, record, violate)
        if places:
            committed.update(record.sent)
        _check_ledger(record, ledger, is_committed=bool(places), violate=violate)
        if len(places) == 1:
            check_reads(history, record, places[0], violate)
        elif _only_ensures(record) and record.fate == "committed" and record.seq is not None:
            # Nothing may have been written, if it is so already.
            check_reads(history, record, record.seq, violate, only=ENSURED)
    for number in sorted(set(ledger) - committed):
        violate("I10", f"the event {number} was handled, and the transaction that sent it is not in the log")


def _only_ensures(record: Record) -> bool:
    """Whether it writes nothing but values that may be there already."""
    return all(step[0] in READS or step[0] == "same" for step in record.act.steps)


def _places(history: History, record: Record, violate: Violate) -> list[int]:
    what = f"transaction {record.act.number} of {record.client} ({record.act.how}, told: {record.fate})"
    found: dict[int, list[int]] = {number: history.written.get(number, []) for number in record.written}
    for number, places in found.items():
        if len(places) > 1:
            violate("INV-11", f"{what}: {number} was written at {places}")
    places = sorted({place for each in found.values() for place in each})
    # A number that another transaction has repeated before is not written: an equal value changes nothing.
    lost = [n for n, at in found.items() if not at and history.repeated.get(n, history.head) >= max(places, default=0)]
    if record.fate == "committed" and not places and found:
        violate("S1", f"{what} is not in the log, which ends at {history.head}")
    elif record.fate == "not" and places and record.act.how != "once":
        violate("S1", f"{what} is in the log, at {places}")
    elif places and lost:
        violate("INV-1", f"{what} is in the log at {places} in part: {lost} are missing")
    elif len(places) > 1 and record.act.how != "once":
        violate("INV-11", f"{what} is in the log at {places}")
    if record.seq is not None and places and record.seq not in places:
        violate("S1", f"{what} was told to be at {record.seq}, and is at {places}")
    return places


def _check_ledger(record: Record, ledger: Counter[int], *, is_committed: bool, violate: Violate) -> None:
    what = f"transaction {record.act.number} of {record.client} ({record.act.how}, told: {record.fate})"
    for number in record.sent:
        if is_committed and not ledger[number]:
            violate("I11", f"{what} is in the log, and its event {number} was not handled")
        elif not is_committed and ledger[number] and record.act.how != "once":
            violate("I10", f"{what} is not in the log, and its event {number} was handled")


def check_reads(history: History, record: Record, seq: int, violate: Violate, *, only: str = "") -> None:
    """The reads of a transaction are what the log says just before it, and what it ensures is so at its place."""
    for doc, path, value in record.read():
        is_ensured = bool(path) and path[0] == ENSURED
        # "Writing an equal value changes nothing", as documented: a write of the confirmed value is no part of a commit
        # with other writes, and does not overwrite what comes before it in the log. So that is not checked there.
        if is_ensured != bool(only):
            continue
        at, path = (seq + 1, path[1:]) if is_ensured else (seq, path)  # noqa: PLW2901  # without the mark
        expected = lookup(history.before(DocKey(f"space/{doc}"), at), path)
        if expected is None and value is not None:
            expected = next((each for name, each in DEFAULTS.items() if doc.startswith(f"shared.{name}")), None)
        if expected != value:
            violate(
                "INV-1",
                f"transaction {record.act.number} of {record.client} is at {seq} and had read {doc}{list(path)} as "
                f"{value}, where the log has {expected}",
            )


def _list(history: History, name: str) -> list[int]:
    found = lookup(history.now(DocKey(f"space/shared.{name}")), ())
    return [each for each in found if isinstance(each, int)] if isinstance(found, list) else []
