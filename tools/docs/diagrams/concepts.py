"""Diagrams of concepts: which one to use, observation, order, restart, offline work, where data lives, time."""

from __future__ import annotations

from typing import Final

from tools.docs.diagrams.drawing import Drawing, Point
from tools.docs.diagrams.programs import (
    TIMELINE_MS,
    WRITES_MS,
    observed_and_not,
    order_of_a_diamond,
    outcomes_of_a_restart,
    runs_on_a_time_line,
)

CHOICES: Final[tuple[tuple[tuple[str, str], str, tuple[tuple[str, str], ...]], ...]] = (
    (
        ("Does it hold data?", "State"),
        "accent",
        (("cell", "one value"), ("doc", "a thing with fields and an id"), ("collection", "many, found by fields")),
    ),
    (
        ("Does it follow from data?", "Functions"),
        "running",
        (
            ("computed", "one result"),
            ("computed with parameters", "one result per argument"),
            ("each", "one result per element"),
            ("if_else", "one of two functions"),
            ("materializer", "written to many places"),
            ("pattern", "the same graph, many times"),
        ),
    ),
    (
        ("Does it cross the border?", "Input and output"),
        "waiting",
        (
            ("handler", "an event comes in"),
            ("stream", "declared by another module"),
            ("resource", "a changing value comes in"),
            ("sink", "out; may be repeated"),
            ("workflow", "out; must not happen twice"),
        ),
    ),
)
"""Question and subject, color, and what to use for which case."""


def choose() -> Drawing:
    """Which one do I need: three questions and what they lead to."""
    d = Drawing(
        "Which one do I need?",
        "Three questions. Does it hold data: a cell for one value, a doc for a thing with fields, a collection for "
        "many documents. Does it follow from data: computed, computed with parameters, each, if_else, materializer, "
        "pattern. Does it cross the border of the program: handler and stream for events, resource for values, sink "
        "for repeatable output, workflow for effects that must not happen twice.",
        880,
        450,
    )
    y = 28.0
    for (question, subject), tone, choices in CHOICES:
        rows = (len(choices) + 2) // 3
        high = rows * 66 - 12
        d.box((16, y), (176, high), subject, question, tone=tone)
        for number, (name, case) in enumerate(choices):
            corner = (222 + number % 3 * 216, y + number // 3 * 66)
            d.box(corner, (210, 54), name, case, title_size=12.5)
        d.arrow((192, y + high / 2), (217, y + high / 2), tone=tone)
        y += high + 30
        if y < 400:
            d.line((24, y - 15), (856, y - 15))
    d.text((440, 432), "Ask all three questions: most programs use several of them.", size=12, tone="ink-2")
    return d


def live_dormant() -> Drawing:
    """Observed functions run after a write, others are only marked."""
    facts = observed_and_not()
    d = Drawing(
        "Live and dormant",
        "The sink show reads total, and total reads the cells price and amount. A write to amount runs total and show "
        "again. report was called once, and no function reads it: it is dormant. It is marked invalid, and runs at its "
        "next call.",
        880,
        370,
    )
    for x, words in ((120, "Cells"), (400, "Computed functions"), (700, "Sinks")):
        d.heading((x, 42), words, "middle")
    d.box((40, 70), (160, 44), "price")
    d.box((40, 160), (160, 44), "amount", "amount.value = 3", tone="accent")
    d.box((40, 250), (160, 44), "title")
    for name, y, note in (("total", 104, "live: a sink reads it"), ("report", 216, "dormant: no reader")):
        is_live = facts[name].live
        d.box((300, y), (200, 58), f"{name}()", note, tone="clean" if is_live else "dormant", dashed=not is_live)
    d.box((620, 104), (160, 58), "show()", "live: it is a sink", tone="waiting")
    d.arrow((200, 92), (296, 122))
    d.arrow((200, 175), (296, 146), tone="accent")
    d.arrow((200, 190), (296, 234), tone="accent", dashed=True)
    d.arrow((200, 272), (296, 256), dashed=True)
    d.arrow((500, 133), (616, 133), tone="accent")
    d.note((400, 180), f"runs again: {facts['total'].runs} runs", anchor="middle")
    d.note((700, 180), f"runs again: {facts['show'].runs} runs", anchor="middle")
    d.note((400, 292), f"marked {facts['report'].status}, not run again: {facts['report'].runs} run", anchor="middle")
    d.line((30, 318), (850, 318))
    d.text(
        (440, 346),
        "A call runs a dormant function once, if it is invalid. The call does not observe it.",
        size=12.5,
        tone="ink-2",
    )
    return d


def diamond() -> Drawing:
    """One write, each function once, in the order of the dependencies."""
    order = order_of_a_diamond()
    d = Drawing(
        "A diamond: each function runs once",
        "The cell net is read by tax and gross, and gross also reads tax; show reads gross and tax. After one write to "
        f"net the functions run in the order {', '.join(order)}, each once, and none of them sees an old input.",
        880,
        330,
    )
    places: dict[str, tuple[Point, str]] = {
        "tax": ((300, 60), "running"),
        "gross": ((460, 190), "running"),
        "show": ((690, 110), "waiting"),
    }
    d.box((40, 120), (160, 56), "net", "net.value = 200", tone="accent")
    for number, name in enumerate(order, start=1):
        corner, tone = places[name]
        d.box(corner, (150, 56), f"{name}()", f"run {number} of {len(order)}", tone=tone)
    d.arrow((200, 138), (296, 94), tone="accent")
    d.arrow((200, 158), (456, 212), tone="accent")
    d.arrow((410, 116), (490, 186))
    d.arrow((450, 82), (686, 124))
    d.arrow((610, 206), (686, 156))
    d.note((570, 84), "tax", anchor="middle")
    d.note((664, 196), "gross", anchor="middle")
    d.note((470, 158), "tax", anchor="start")
    d.line((30, 276), (850, 276))
    d.text(
        (440, 304),
        "A function runs after the functions that it reads. No run sees a new value beside an outdated one.",
        size=12.5,
        tone="ink-2",
    )
    return d


def restart() -> Drawing:
    """What is restored at a start, and what runs."""
    outcomes = outcomes_of_a_restart()
    d = Drawing(
        "What runs after a restart",
        "While no program is open, another program changes title, and the code of gross changes. At the next start "
        "each function is compared by its fingerprint and by the log position of its last run: total is restored, "
        "label is dirty and runs when it is observed, gross is fresh and runs.",
        880,
        446,
    )
    d.heading((30, 36), "The log")
    d.text((860, 36), "time", anchor="end")
    d.arrow((760, 32), (822, 32))
    d.bar((60, 56), 290, "first start: all functions run", "clean")
    d.bar((400, 56), 160, "title = milk", "accent")
    d.bar((610, 56), 230, "next start", "clean")
    d.line((350, 71), (400, 71), tone="line-strong", dashed=True)
    d.line((560, 71), (610, 71), tone="line-strong", dashed=True)
    d.note(
        (205, 106),
        "stored with each result: the reads of the run,",
        "its log position, its fingerprint",
        anchor="middle",
    )
    d.note((480, 106), "by another program", anchor="middle")
    d.note((725, 106), "the code of gross() is new", anchor="middle")
    d.line((30, 142), (860, 142))
    d.heading((30, 168), "The next start asks for each function")
    questions = (
        ("Same fingerprint?", "code, defaults, version="),
        ("A value it read changed?", "since its log position"),
    )
    d.box((40, 190), (220, 58), *questions[0], tone="accent")
    d.box((40, 296), (220, 58), *questions[1], tone="accent")
    words = {
        "fresh": ("fresh", "no result is valid: runs if observed", "failed"),
        "dirty": ("dirty", "an input changed: runs if observed", "invalid"),
        "restored": ("restored", "does not run: the result is current", "clean"),
    }
    for outcome, y in (("fresh", 190), ("dirty", 268), ("restored", 346)):
        title, note, tone = words[outcome]
        d.box((380, y), (270, 58), title, note, tone=tone)
        functions = [name for name, found in outcomes.items() if found == outcome]
        d.text((670, y + 34), f"here: {', '.join(functions)}()", size=12.5, tone="ink-2", anchor="start")
    d.arrow((260, 219), (376, 219), tone="failed")
    d.text((318, 212), "no")
    d.arrow((150, 248), (150, 292))
    d.text((162, 276), "yes", anchor="start")
    d.arrow((260, 312), (376, 300), tone="invalid")
    d.text((318, 298), "yes")
    d.arrow((260, 342), (376, 368), tone="clean")
    d.text((318, 372), "no")
    d.text(
        (40, 430),
        'Sinks run once at each start, because the screen is new. With resume="quiet" they are restored, too.',
        size=12,
        tone="ink-2",
        anchor="start",
    )
    return d


def offline() -> Drawing:
    """Work without the server, and the reconnect as one step."""
    d = Drawing(
        "Work without the server",
        "While the server is away the program goes on: its writes are visible here, pending and kept in order, with "
        "local= in a folder. Other programs write at the server. The reconnect is one step: the commits of the others "
        "arrive together with the verdicts on the own ones.",
        880,
        400,
    )
    for x, wide, words, tone in (
        (150, 170, "live", "clean"),
        (324, 300, "offline", "failed"),
        (628, 232, "live", "clean"),
    ):
        d.bar((x, 40), wide, words, tone)
    d.text((30, 60), "connection.state", tone="ink-2", anchor="start")
    for y, words in ((135, "Your program"), (235, "Server"), (335, "Other programs")):
        d.text((30, y), words, size=13, tone="ink", bold=True, anchor="start")
    d.box((170, 108), (90, 44), "write 1", tone="clean")
    d.box((340, 108), (90, 44), "write 2", tone="waiting")
    d.box((440, 108), (90, 44), "write 3", tone="waiting")
    d.box((660, 108), (186, 44), "one step", "verdicts and #8", tone="clean")
    d.note((435, 172), "visible here, pending, in order;", "with local= kept in a folder", anchor="middle")
    d.box((190, 208), (90, 44), "#7", "write 1", tone="clean")
    d.box((456, 208), (90, 44), "#8", "other", tone="accent")
    d.box((640, 208), (100, 44), "#9", "write 2", tone="clean")
    d.box((750, 208), (100, 44), "rejected", "write 3", tone="failed")
    d.arrow((220, 152), (228, 204))
    d.box((456, 308), (90, 44), "write", tone="accent")
    d.arrow((501, 308), (501, 256))
    d.arrow((690, 208), (715, 156), tone="clean")
    d.arrow((800, 208), (785, 156), tone="failed")
    d.note(
        (640, 276),
        "decided in order, each once. Write 3",
        "had read a value that #8 changed:",
        "it is rolled back and reported",
    )
    d.text(
        (440, 384),
        "The program connects again by itself, at least every 5 s. Each commit is decided once.",
        size=12.5,
        tone="ink-2",
    )
    return d


def where_data_lives() -> Drawing:
    """The four kinds of URL, and how many processes use each."""
    d = Drawing(
        "Where data lives",
        "memory: is a space that ends with the opening. A file such as shop.db is one space, owned by one process. A "
        "folder such as data/ holds a file for each space, each owned by one process. A server owns a folder, and any "
        "number of programs open its spaces by ws:// URLs.",
        880,
        400,
    )
    panels = ((24, "memory:"), (238, "shop.db"), (452, "data/"), (666, "ws://host:8400/shop"))
    for x, url in panels:
        d.frame((x, 56), (190, 290))
        d.text((x + 95, 42), url, size=13, tone="accent", bold=True, code=True)
    d.box((54, 76), (130, 46), "your program", tone="waiting")
    d.box((54, 176), (130, 46), "space", tone="accent")
    d.arrow((119, 122), (119, 172))
    d.note((119, 262), "gone when it", "is closed:", "for tests", anchor="middle")
    d.box((268, 76), (130, 46), "your program", tone="waiting")
    d.box((268, 176), (130, 46), "shop.db", "one SQLite file", tone="clean")
    d.arrow((333, 122), (333, 172))
    d.note((333, 262), "one process at a time", "owns the file; others", "get HW202", anchor="middle")
    d.box((472, 76), (70, 46), "one", tone="waiting")
    d.box((552, 76), (70, 46), "two", tone="waiting")
    d.box((472, 176), (70, 46), "ann.db", tone="clean")
    d.box((552, 176), (70, 46), "bob.db", tone="clean")
    d.arrow((507, 122), (507, 172))
    d.arrow((587, 122), (587, 172))
    d.note((547, 262), "a file for each space;", "one process at a time", "owns each file", anchor="middle")
    d.box((686, 76), (70, 46), "one", tone="waiting")
    d.box((766, 76), (70, 46), "two", tone="waiting")
    d.box((706, 160), (110, 40), "server", tone="accent")
    d.box((706, 236), (110, 40), "data/", tone="clean")
    d.arrow((721, 122), (745, 156), both=True)
    d.arrow((801, 122), (777, 156), both=True)
    d.arrow((761, 200), (761, 232))
    d.note((761, 298), "any number of programs,", "on any machine; each", "keeps a replica", anchor="middle")
    d.text((440, 378), "The program is the same in all four cases: only the URL differs.", size=12.5, tone="ink-2")
    return d


def debounce() -> Drawing:
    """When a debounced and a throttled function run: drawn from a run in simulated time."""
    runs = runs_on_a_time_line()
    d = Drawing(
        "Debounce and throttle",
        f"Writes at {_times(WRITES_MS)} ms. A function with debounce=250ms runs at {_times(runs['debounced'])} ms: "
        f"its inputs were quiet for 250 ms. A function with throttle=500ms runs at {_times(runs['throttled'])} ms: "
        "at once after a rest, and otherwise at most every 500 ms.",
        880,
        310,
    )

    def at(moment: float) -> float:
        return 180 + moment * 660 / TIMELINE_MS

    lanes = ((70, "writes", "accent", WRITES_MS), (140, "debounce=250ms", "running", runs["debounced"]))
    for y, name, tone, moments in (*lanes, (210, "throttle=500ms", "waiting", runs["throttled"])):
        d.text((30, y + 4), name, size=12.5, tone="ink", bold=True, anchor="start")
        d.line((at(0), y), (at(TIMELINE_MS), y), tone="line-strong")
        for moment in moments:
            d.dot((at(moment), y), tone, 6)
            d.text((at(moment), y - 13), f"{moment}", size=10.5, tone="ink-2")
    d.text((at(TIMELINE_MS), 36), "milliseconds", anchor="end")
    d.line((30, 244), (850, 244))
    d.note(
        (30, 268),
        "Debounce: each write starts the pause again; the run comes after the last one. The first run never waits.",
        "Throttle: runs at once after a rest; writes within 500 ms after the end of a run share the next run.",
        tone="ink-2",
    )
    return d


def _times(moments: list[int] | tuple[int, ...]) -> str:
    return ", ".join(str(moment) for moment in moments)
