"""The pipeline of the tutorial as a script: read the files that changed, keep the totals, write a report."""

from csv import DictReader
from io import StringIO
from pathlib import Path

import headwater as hw

app = hw.App("sales")
files = app.cell("files", type=dict[str, str], default={})


@app.computed
def rows(name: str, version: str) -> list[tuple[str, int]]:
    text = Path("sales", name).read_text()
    return [(row["product"], int(row["cents"])) for row in DictReader(StringIO(text))]


@app.computed
def totals() -> dict[str, int]:
    found: dict[str, int] = {}
    for name, version in files.value.items():
        for product, cents in rows(name, version):
            found[product] = found.get(product, 0) + cents
    return found


@app.sink(resume="quiet")
def report() -> None:
    lines = [f"{product:8}{cents / 100:8.2f}" for product, cents in sorted(totals().items())]
    Path("report.txt").write_text("\n".join(lines) + "\n")


def scan() -> None:
    found = {path.name: path.stat() for path in sorted(Path("sales").glob("*.csv"))}
    files.value = {name: f"{stat.st_mtime_ns}-{stat.st_size}" for name, stat in found.items()}


if __name__ == "__main__":
    with app.open("sales.db") as space:
        scan()
        print("runs:", space.runs(rows), space.runs(totals), space.runs(report))
