"""Draws the picture of ARCHITECTURE.md: `python docs/internals/draw_loop.py` writes loop.svg beside this file.

Coordinates are set by hand on a grid: the picture is for a reader, and has few boxes. Each box names the module that it
stands for; a test checks that these exist and that loop.svg is what this program draws.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 600
BOX_W, BOX_H = 172, 62
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
CODE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
STYLE = """
.page{fill:#ffffff}.box{fill:#f6f7f9;stroke:#8a94a3}.core{fill:#eaf2ff;stroke:#3b73c4}
.disk{fill:#eaf7ee;stroke:#2f8f55}
.mark{fill:#fff4e5;stroke:#c07a1a}.ink{fill:#1d2530}.soft{fill:#5b6675}
.line{stroke:#5b6675;fill:none}.tip{fill:#5b6675}
@media (prefers-color-scheme: dark){.page{fill:#14181e}.box{fill:#1e242d;stroke:#6d7886}
.core{fill:#182840;stroke:#6fa3ee}
.disk{fill:#152d20;stroke:#55b87c}.mark{fill:#33260f;stroke:#d79a45}.ink{fill:#e8ecf1}.soft{fill:#a4afbd}
.line{stroke:#a4afbd}.tip{fill:#a4afbd}}
"""

# Column and row on the grid, name, module or package, class of the colour.
BOXES: tuple[tuple[float, float, str, str, str], ...] = (
    (0, 0, "Author's functions", "declare/functions/computed.py", "box"),
    (1, 0, "Transaction", "cells/transaction.py", "core"),
    (2, 0, "Replica", "cells/replica.py", "core"),
    (3, 0, "Storage", "host/storage.py", "disk"),
    (0, 1, "Runner", "scheduler/passes/runner.py", "mark"),
    (1, 1, "Settle", "scheduler/passes/settle.py", "mark"),
    (2, 1, "Invalidation", "scheduler/passes/invalidation.py", "mark"),
    (3, 1, "Engine", "store/engine.py", "disk"),
    (0, 2, "Lanes", "scheduler/events/lanes.py", "box"),
    (1, 2, "Pieces, resources", "runtime/space_runtime.py", "box"),
    (2, 2, "Channel", "server/spaces/channel.py", "box"),
    (3, 2, "Backend", "store/backends/sqlite.py", "disk"),
    (0, 3, "Topics", "declare/workflows/topic.py", "box"),
    (1, 3, "Planner, transitions", "workflow/planner.py", "core"),
    (2, 3, "Run executor", "runtime/workflows/run_executor.py", "mark"),
    (3, 3, "Outside services", "declare/workflows/connector.py", "box"),
)

# Path, then a caption with its position and anchor.
ARROWS: tuple[tuple[str, str, float, float, str], ...] = (
    ("M202 91 L242 91", "reads, writes", 222, 52, "middle"),
    ("M414 91 L454 91", "commit", 434, 52, "middle"),
    ("M626 79 L666 79", "submit", 646, 52, "middle"),
    ("M666 103 L626 103", "outcomes", 620, 138, "end"),
    ("M540 122 L540 192", "what changed", 532, 162, "end"),
    ("M454 223 L414 223", "readers", 434, 186, "middle"),
    ("M242 223 L202 223", "next node", 222, 186, "middle"),
    ("M116 192 L116 122", "call, in a transaction", 124, 162, "start"),
    ("M752 122 L752 192", "groups", 760, 162, "start"),
    ("M752 254 L752 324", "rows", 760, 294, "start"),
    ("M116 324 L116 254", "next event", 124, 294, "start"),
    ("M328 324 L328 254", "nodes, results", 336, 294, "start"),
    ("M626 347 L642 347 L642 116 L666 116", "clients of a server", 540, 312, "middle"),
    ("M202 487 L242 487", "events", 222, 450, "middle"),
    ("M414 487 L454 487", "next run", 434, 450, "middle"),
    ("M626 475 L666 475", "mutate, once", 646, 440, "middle"),
    ("M666 499 L626 499", "reads, polls", 646, 532, "middle"),
    ("M540 518 L540 548 L328 548 L328 522", "what each phase stored", 434, 566, "middle"),
    ("M328 456 L328 418 L752 418 L752 390", "table transactions, with the commits of cells", 540, 410, "middle"),
)


def left(column: float) -> float:
    """The left edge of a column."""
    return 30 + column * 212


def top(row: float) -> float:
    """The upper edge of a row."""
    return 60 + row * 132


def drawn() -> str:
    """The picture as SVG, light and dark."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-labelledby="t d" font-family="{FONT}"><title id="t">The loops of Headwater</title>'
        '<desc id="d">A function reads and writes in a transaction. Its commit is applied to the replica at once and '
        "submitted to the storage, where the engine decides it. Changes invalidate the nodes that read them; settling "
        "runs those that are observed. Below, workflows: topics, the planner, the run executor, and services outside."
        f"</desc><style>{STYLE}</style>"
        '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0.6 L7.4 4 L0 7.4 z" class="tip"/></marker>'
    )
    parts = [
        head,
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="14" class="page"/>',
        text(30, 32, "Reactive loop", 13, "soft", anchor="start", bold=True),
        text(30, 440, "Workflows", 13, "soft", anchor="start", bold=True),
    ]
    for column, row, title, module, tone in BOXES:
        x, y = left(column), top(row)
        parts.append(f'<rect x="{x:g}" y="{y:g}" width="{BOX_W}" height="{BOX_H}" rx="9" class="{tone}"/>')
        parts.append(text(x + BOX_W / 2, y + 28, title, 14, "ink", bold=True))
        parts.append(text(x + BOX_W / 2, y + 47, module.rpartition("/")[0] + "/", 11, "soft", code=True))
    for path, caption, x, y, anchor in ARROWS:
        parts.append(f'<path d="{path}" class="line" stroke-width="1.5" marker-end="url(#a)"/>')
        parts.append(text(x, y, caption, 11, "soft", anchor=anchor))
    return "".join(parts) + "</svg>\n"


def text(  # noqa: PLR0917  # as SVG has it
    x: float,
    y: float,
    words: str,
    size: int,
    tone: str,
    anchor: str = "middle",
    *,
    bold: bool = False,
    code: bool = False,
) -> str:
    """One line of text."""
    family = f' font-family="{CODE}"' if code else ""
    weight = ' font-weight="650"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" class="{tone}" text-anchor="{anchor}"{weight}{family}>'
        f"{escape(words)}</text>"
    )


if __name__ == "__main__":
    Path(__file__).with_name("loop.svg").write_text(drawn(), encoding="utf-8")
