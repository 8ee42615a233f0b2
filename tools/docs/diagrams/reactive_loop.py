"""Diagrams of the loop: what a write sets off, and which modules take part."""

from __future__ import annotations

from typing import Final

from tools.docs.diagrams.drawing import Anchor, Drawing, Point


def reactive_loop() -> Drawing:
    """Write, transaction, commit, invalidate, settle, show."""
    d = Drawing(
        "The reactive loop",
        "Your code writes in a transaction. The commit is visible at once and marks the functions that read the "
        "changed values as invalid. Settling runs the invalid functions that are observed, each in its own "
        "transaction, until none is invalid. A result equal to the old one ends the loop.",
        880,
        400,
    )
    for x, words in ((115, "1  You write"), (335, "2  Transaction"), (555, "3  Commit"), (775, "Storage and server")):
        d.heading((x, 46), words, "middle")
    d.box((30, 62), (170, 76), "Your code", "count.value += 1", "submit.send(...)")
    d.box((250, 62), (170, 76), "Transaction", "all of it, or nothing;", "records what it read", tone="accent")
    d.box((470, 62), (170, 76), "Commit", "visible at once,", "only what differs", tone="clean")
    d.box((690, 62), (170, 76), "Log", "on disk after 2 ms,", "or sent to the server")
    d.arrow((200, 100), (246, 100))
    d.arrow((420, 100), (466, 100))
    d.arrow((644, 88), (686, 88))
    d.arrow((690, 112), (644, 112), dashed=True)
    d.note((775, 158), "verdicts, and commits of", "other programs, come back", anchor="middle")
    d.arrow((555, 138), (555, 222), tone="invalid")
    d.note((567, 206), "which functions read this?")
    d.box((470, 226), (170, 76), "Invalid", "marked, not yet run:", "two writes, one run", tone="invalid")
    d.box((250, 226), (170, 76), "Run", "computed functions", "first, sinks last", tone="running")
    d.box((30, 226), (170, 76), "Sink", "screen, page, file:", "what is observed", tone="waiting")
    for x, words in ((555, "4  Invalidate"), (335, "5  Settle"), (115, "6  Show")):
        d.heading((x, 326), words, "middle")
    d.arrow((470, 264), (424, 264))
    d.arrow((250, 264), (204, 264))
    d.arrow((335, 226), (335, 142), tone="accent")
    d.note((323, 178), "a new result is a write:", "the loop continues", anchor="end")
    d.line((30, 346), (860, 346))
    d.text(
        (440, 374),
        "The loop ends when no observed function is invalid. An equal result is not written, so no reader runs.",
        size=12.5,
        tone="ink-2",
    )
    return d


# Column and row on the grid, name, module, color.
BOXES: Final[tuple[tuple[int, int, str, str, str], ...]] = (
    (0, 0, "Author's functions", "declare/functions/computed.py", "dormant"),
    (1, 0, "Transaction", "cells/transaction.py", "accent"),
    (2, 0, "Replica", "cells/replica.py", "accent"),
    (3, 0, "Storage", "host/storage.py", "clean"),
    (0, 1, "Runner", "scheduler/runs/runner.py", "invalid"),
    (1, 1, "Settle", "scheduler/passes/settle.py", "invalid"),
    (2, 1, "Invalidation", "scheduler/runs/invalidation.py", "invalid"),
    (3, 1, "Engine", "store/engine.py", "clean"),
    (0, 2, "Lanes", "scheduler/events/lanes.py", "dormant"),
    (1, 2, "Pieces, resources", "runtime/space_runtime.py", "dormant"),
    (2, 2, "Channel", "server/spaces/channel.py", "dormant"),
    (3, 2, "Backend", "store/backends/sqlite.py", "clean"),
    (0, 3, "Topics", "declare/workflows/topic.py", "dormant"),
    (1, 3, "Planner, transitions", "workflow/planner.py", "accent"),
    (2, 3, "Run executor", "runtime/workflows/run_executor.py", "invalid"),
    (3, 3, "Outside services", "declare/workflows/connector.py", "dormant"),
)

# A path, then a caption with its position.
_ARROWS: Final[tuple[tuple[tuple[Point, ...], str, Point, Anchor], ...]] = (
    (((202, 91), (240, 91)), "reads, writes", (222, 52), "middle"),
    (((414, 91), (452, 91)), "commit", (434, 52), "middle"),
    (((626, 79), (664, 79)), "submit", (646, 52), "middle"),
    (((666, 103), (628, 103)), "outcomes", (634, 140), "end"),
    (((540, 122), (540, 190)), "what changed", (532, 162), "end"),
    (((454, 223), (416, 223)), "readers", (434, 184), "middle"),
    (((242, 223), (204, 223)), "next node", (222, 184), "middle"),
    (((116, 192), (116, 124)), "call, in a transaction", (124, 162), "start"),
    (((752, 122), (752, 190)), "groups", (760, 162), "start"),
    (((752, 254), (752, 322)), "rows", (760, 294), "start"),
    (((116, 324), (116, 256)), "next event", (124, 294), "start"),
    (((328, 324), (328, 256)), "nodes, results", (336, 294), "start"),
    (((626, 347), (642, 347), (642, 116), (664, 116)), "clients of a server", (560, 312), "middle"),
    (((202, 487), (240, 487)), "events", (222, 448), "middle"),
    (((414, 487), (452, 487)), "next run", (434, 448), "middle"),
    (((626, 475), (664, 475)), "mutate, once", (646, 446), "middle"),
    (((666, 499), (628, 499)), "reads, polls", (646, 534), "middle"),
    (((540, 518), (540, 548), (328, 548), (328, 520)), "what each phase stored", (434, 566), "middle"),
    (
        ((328, 456), (328, 418), (752, 418), (752, 388)),
        "table transactions, with the commits of cells",
        (540, 410),
        "middle",
    ),
)


def loops() -> Drawing:
    """The loops of Headwater, with the module of each part."""
    d = Drawing(
        "The loops of Headwater",
        "A function reads and writes in a transaction. Its commit is applied to the replica at once and submitted to "
        "the storage, where the engine decides it. Changes invalidate the nodes that read them; settling runs those "
        "that are observed. Below, workflows: topics, the planner, the run executor, and services outside.",
        900,
        600,
    )
    d.heading((30, 32), "Reactive loop")
    d.heading((30, 440), "Workflows")
    for column, row, title, module, tone in BOXES:
        corner = (30 + column * 212, 60 + row * 132)
        d.box(corner, (172, 62), title, module.rpartition("/")[0] + "/", tone=tone)
    for points, caption, at, anchor in _ARROWS:
        d.arrow(*points)
        d.text(at, caption, size=11, anchor=anchor)
    return d
