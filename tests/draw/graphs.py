"""Snapshots to draw: one as an app would have it, random ones, and names that are up to no good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from headwater.scheduler.inspect.graph_snapshot import Edge, NodeView, Snapshot, SourceView

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

sources = st.randoms(use_true_random=False)

HOSTILE = [
    "<script>alert(1)</script>",
    "</title></g></svg>",
    "\"quotes\" 'and' `ticks`",
    "&amp; &lt; ]]> <![CDATA[",
    "two\nlines\r\tand tabs",
    "\x00\x07\x1b[31mred\x1b[0m",
    "\ud800 alone \udfff",
    "\ufffe\uffff\u2028\u2029",
    "\u202eright to left\u202c",
    "名前は長い" * 12,
    "e" + "\u0301" * 500,
    "👩‍👩‍👧 family",
    "%%{init: {'theme':'dark'}}%%",
    "end",
    "1. list",
    "- item",
    "#quot; #35; \\n <br/>",
    'a --> b; c["x"] | {y} ((z))',
    "__init__ _x_ **bold**",
    "",
    " ",
    "row(" + "x" * 5000 + ")",
]


def node(name: str, **fields: Any) -> NodeView:
    """A node with the usual fields; its id is its name unless said otherwise."""
    usual: dict[str, Any] = {"id": name, "kind": "computation", "status": "clean", "live": True, "runs": 1}
    return NodeView(name=name, **{**usual, **fields})


def snapshot(nodes: Sequence[NodeView], data: Sequence[tuple[str, str]] = (), **fields: Any) -> Snapshot:
    """With these edges of data; an end that begins with doc: is a document and need not be declared."""
    documents = dict.fromkeys(end for edge in data for end in edge if end.startswith("doc:"))
    usual: dict[str, Any] = {
        "space": "test",
        "at_ms": 0,
        "seq": 1,
        "sources": tuple(SourceView(id=doc, address=doc.removeprefix("doc:")) for doc in documents),
        "edges": tuple(Edge(source, target, "data") for source, target in data),
    }
    return Snapshot(nodes=tuple(nodes), **{**usual, **fields})


def some_edges(random: Random, count: int) -> list[tuple[int, int]]:
    """Anything: circles, edges to oneself, the same one twice, parts that do not hang together."""
    if not count:
        return []
    reach = random.choice([1, 3, count])
    edges = []
    for _ in range(random.randint(0, 2 * count)):
        start = random.randrange(count)
        edges.append((start, max(0, min(count - 1, start + random.randint(-reach // 2, reach)))))
    return edges


def some_snapshot(random: Random, count: int) -> Snapshot:
    nodes = [
        node(
            random.choice(["row({})", "cell{}", "x"]).format(index),
            id=f"n{index}",
            kind=random.choice(["computation", "effect", "handler"]),
            status=random.choice(["clean", "invalid", "never-ran"]),
            waiting=random.choice([0, 0, 3]),
            live=random.random() < 0.7,
            rank=random.randint(0, 5),
            error=random.choice(["", "", "ValueError: no"]),
            gate=random.choice(["", "", "debounce 250ms"]),
            in_flight=random.random() < 0.2,
            runs=random.randint(0, 5000),
            mean_ms=random.random() * 10 ** random.randint(-3, 5),
        )
        for index in range(count)
    ]
    documents = [SourceView(id=f"doc:d{index}", address=f"d{index}") for index in range(random.randint(0, 5))]
    ids = [document.id for document in documents] + [view.id for view in nodes]
    edges = tuple(
        Edge(ids[source], ids[target], random.choice(["data", "data", "envelope", "parent"]))
        for source, target in some_edges(random, len(ids))
    )
    return Snapshot(space="chance", at_ms=1, seq=1, nodes=tuple(nodes), sources=tuple(documents), edges=edges)


def shop() -> Snapshot:
    """What a small shop looks like while somebody types: 25 nodes, most of what can be in a picture."""

    def run(name: str, reads: list[str], **fields: Any) -> NodeView:
        usual: dict[str, Any] = {
            "why_live": "read by live nodes",
            "runs": 12,
            "invalidated": 13,
            "mean_ms": 0.42,
            "outputs": (f"shop.{name}",),
            "reads": tuple(reads),
            "file": "shop/app.py",
            "line": 12,
        }
        return node(name, **{**usual, **fields})

    effect: dict[str, Any] = {"kind": "effect", "why_live": "effect", "outputs": ()}
    nodes = [
        run("query", ["shop.typed"], gate="debounce 250ms, eligible in 120ms", status="invalid", runs=31),
        run("matches", ["shop.query", "shop.catalog"], status="invalid", mean_ms=18.4, rank=1),
        run("results_page", ["shop.matches", "shop.settings"], status="invalid", rank=2),
        run("rates", ["shop.rate_feed"], in_flight=True, mean_ms=840, runs=3),
        run("price_of('tea')", ["shop.catalog", "shop.rates"], rank=1, parent="totals"),
        run("price_of('coffee')", ["shop.catalog", "shop.rates"], rank=1, parent="totals"),
        run("price_of('cake')", ["shop.catalog", "shop.rates"], rank=1, parent="totals", error="KeyError: 'cake'"),
        run("basket_lines", ["shop.basket", "shop.catalog"]),
        run("totals", ["shop.basket_lines"], rank=2, mean_ms=1.3),
        run("vat", ["shop.totals", "shop.settings"], rank=3),
        run("discount", ["shop.totals", "shop.customer"], rank=3),
        run("shipping", ["shop.basket_lines", "shop.customer"], rank=1),
        run("grand_total", ["shop.vat", "shop.discount", "shop.shipping"], rank=4, runs=1240),
        run("invoice_text", ["shop.grand_total", "shop.customer"], rank=5, mean_ms=2.25),
        run("recommendations_for_returning_customers", ["shop.customer"], live=False, why_live="", status="invalid"),
        run("stock_report", ["shop.catalog"], live=False, why_live="", runs=1),
        run("year_to_date", [], live=False, why_live="", status="never-ran", runs=0, mean_ms=0),
        run("audit", [], live=False, why_live="", status="never-ran", runs=0, mean_ms=0),
        run("history", ["shop.history", "shop.grand_total"], why_live="eager", rank=5),
        run("index_words", ["shop.catalog"], why_live="materializer", envelopes=("shop.words",), mean_ms=5),
        run("show_results", ["shop.results_page"], **effect, rank=3, status="invalid"),
        run("show_basket", ["shop.basket_lines", "shop.grand_total"], **effect, rank=5),
        run("print_invoice", ["shop.invoice_text"], **effect, rank=6, error="OSError: no printer is connected"),
        run("save_history", ["shop.history"], **effect, rank=6),
        run("refresh_rates", ["shop.settings"], **effect, gate="throttle 60s, eligible in 41s"),
    ]
    named = {f"shop.{view.name}": view.id for view in nodes if view.kind == "computation"}
    documents = dict.fromkeys(address for view in nodes for address in view.reads if address not in named)
    edges = [Edge(named.get(read, f"doc:{read}"), view.id, "data") for view in nodes for read in view.reads]
    prices = [view for view in nodes if view.name.startswith("price_of")]
    edges += [Edge(price.id, "totals", "data") for price in prices]
    edges += [Edge("totals", price.id, "parent") for price in prices]
    edges += [Edge("index_words", "matches", "envelope"), Edge("refresh_rates", "rates", "data")]
    edges += [Edge("grand_total", "shipping", "data")]
    return Snapshot(
        space="shop",
        at_ms=1_760_000_000_000,
        seq=4711,
        nodes=tuple(nodes),
        sources=tuple(SourceView(id=f"doc:{address}", address=address) for address in documents),
        edges=tuple(edges),
    )
