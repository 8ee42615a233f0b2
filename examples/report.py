"""Resume without running: every later start restores the results that were computed before."""

import headwater as hw

app = hw.App("report")
rows = app.cell("rows", list(range(100_000)))


@app.computed
def heavy() -> int:
    return sum(x * x for x in rows.value)


@app.sink
def show() -> None:
    print("sum", heavy())


if __name__ == "__main__":
    with app.open("report.db") as space:
        print("runs of heavy:", space.runs(heavy))  # 1, and 0 on every later start
