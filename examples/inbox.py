"""A workflow that never acts twice: notes in a folder become rows of a ledger, each once, whenever the power fails."""

# The methods have the types of those they override; one rule of the strict mode wants to see them all the same.
# pyright: reportMissingParameterType=false

import csv
from dataclasses import dataclass
from pathlib import Path

import headwater as hw


@dataclass(frozen=True)
class Note:
    name: str
    text: str


app = hw.App("inbox")
flow = app.workflow("inbox")
notes = flow.topic("notes", Note)  # Note: a frozen dataclass
LEDGER = Path("ledger.csv")


@flow.producer(every="5m")
def poll() -> None:  # safe to repeat: id= drops duplicates
    for p in Path("inbox").glob("*.txt"):
        notes.publish(Note(p.name, p.read_text()), id=p.name, title=f"Note {p.name}")


@flow.consumer(notes, retry=hw.Retry(5, backoff="30s", on=OSError))
class Summarise(hw.Consumer[Note, list[list[str]], int]):
    def prepare(self, pending):  # read only; may return nothing to do, with a wake time
        if not pending:
            return hw.Plan.idle()
        rows = [[e.id, e.data.text[:60]] for e in pending[:10]]
        return hw.Plan(rows, take=pending[:10], title=f"Append {len(rows)} rows", ask=True)

    def mutate(self, run, data):  # at most one outside effect; run.key is its idempotency key
        with LEDGER.open("a", newline="") as f:
            csv.writer(f).writerows([run.key, *r] for r in data)
        return len(data)

    def reconcile(self, run, data):  # asked after a crash or timeout: did it happen?
        found = LEDGER.read_text().count(run.key) if LEDGER.exists() else 0
        return hw.Applied(found) if found == len(data) else hw.NotApplied() if found == 0 else hw.Unknown()

    def next(self, run, data, outcome):  # publishes and cell writes land with the run's commit
        print(f"{outcome.result} rows added")


if __name__ == "__main__":
    app.run("inbox.db")  # or:  headwater run inbox:app
