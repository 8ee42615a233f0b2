"""A workflow that never acts twice: notes in a folder become rows of a ledger, each once, whenever the power fails."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import headwater as hw


@dataclass(frozen=True)
class Note:
    name: str
    text: str


Rows = list[list[str]]
app = hw.App("inbox")
flow = app.workflow("inbox")
notes = flow.topic("notes", Note)  # Note: a frozen dataclass
LEDGER = Path("ledger.csv")


@flow.producer(every="5m")
def poll() -> None:  # safe to repeat: id= drops duplicates
    for p in Path("inbox").glob("*.txt"):
        notes.publish(Note(p.name, p.read_text()), id=p.name, title=f"Note {p.name}")


@flow.consumer(notes, retry=hw.Retry(5, backoff="30s", on=OSError))
class Summarise(hw.Consumer[Note, Rows, int]):
    # Read only; may return nothing to do, with a wake time.
    def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[Rows]:
        if not pending:
            return hw.Plan.idle()
        rows = [[e.id, e.data.text[:60]] for e in pending[:10]]
        return hw.Plan(rows, take=pending[:10], title=f"Append {len(rows)} rows", ask=True)

    # At most one outside effect; run.key is its idempotency key.
    def mutate(self, run: hw.Run, data: Rows) -> int:
        with LEDGER.open("a", newline="") as f:
            csv.writer(f).writerows([run.key, *r] for r in data)
        return len(data)

    # Asked after a crash or timeout: did it happen?
    def reconcile(self, run: hw.Run, data: Rows) -> hw.Applied[int] | hw.NotApplied | hw.Unknown:
        found = LEDGER.read_text().count(run.key) if LEDGER.exists() else 0
        return hw.Applied(found) if found == len(data) else hw.NotApplied() if found == 0 else hw.Unknown()

    # Publishes and cell writes land with the run's commit.
    def next(self, run: hw.Run, data: Rows, outcome: hw.Outcome[int]) -> None:
        print(f"{outcome.result} rows added")


if __name__ == "__main__":
    app.run("inbox.db")  # or:  headwater run inbox:app
