"""The Functions screen: the graph with positions and states, the table, one function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from headwater.draw.node_captions import state, titled
from headwater.errors import HeadwaterError, NotFoundError
from headwater.inspect.document_records import GetValue
from headwater.inspect.function_records import NODES_MAX, ChangesView, ExplainNode, GetChanges, GetGraph, GraphView
from headwater.inspect.inspector import Inspector
from headwater.scheduler.inspect.graph_snapshot import Edge, NodeView, Snapshot, SourceView
from headwater.studio import answers, questions
from headwater.studio.graph_drawing import Drawing, Drawings
from headwater.studio.limits import BOXES, PAGE_MAX
from headwater.studio.value_texts import first_line, sentence_parts, value_text
from headwater.values.text import inert

TONES: Final[tuple[answers.Tone, ...]] = (
    "failed",
    "running",
    "waiting",
    "invalid",
    "clean",
    "never-ran",
    "dormant",
    "document",
)
"""The order in which a shared box takes the state of a member."""

_RANK: Final = {tone: at for at, tone in enumerate(TONES)}


class Sight:
    """The functions of a space as they were seen last. Only what has changed since is read."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[SeenFunctions, int, int]] = {}
        self._shapes = 0

    def seen(self, inspector: Inspector, app: str = "") -> SeenFunctions:
        """The snapshots of all openings, or of that of one app, as one."""
        known = self._seen.get(app)
        if known is not None and inspector.is_live:
            [view, *others] = inspector.ask(GetChanges(look=known[2])) or (None,)
            is_same = view is not None and not others and view.structure == known[1]
            if view is not None and is_same and view.pid == known[0].openings[0].pid:
                found = _merged(known[0], view)
                self._seen[app] = found, known[1], view.look
                return found
        self._seen.pop(app, None)
        # Before the snapshot: what changes between the two is read again.
        views = self._first_look(inspector)
        found = self._fresh(inspector, app)
        if len(views) == 1:
            self._seen[app] = found, views[0].structure, views[0].look
        return found

    def _first_look(self, inspector: Inspector) -> tuple[ChangesView, ...]:
        try:
            return inspector.ask(GetChanges()) if inspector.is_live else ()
        except HeadwaterError:
            # An older program.
            return ()

    def _fresh(self, inspector: Inspector, app: str) -> SeenFunctions:
        self._shapes += 1
        return msgspec.structs.replace(_read(inspector, app), shape=self._shapes)


def _merged(before: SeenFunctions, view: ChangesView) -> SeenFunctions:
    """What was seen before, with the nodes that have changed."""
    changed = {node.id: node for node in view.nodes}
    nodes = tuple(
        msgspec.structs.replace(changed[node.id], rank=node.rank) if node.id in changed else node
        for node in before.snapshot.nodes
    )
    snapshot = msgspec.structs.replace(before.snapshot, nodes=nodes, seq=view.seq, at_ms=view.at_ms)
    return msgspec.structs.replace(before, snapshot=snapshot)


class SeenFunctions(msgspec.Struct, frozen=True):
    """The functions of all openings at one moment."""

    snapshot: Snapshot
    openings: tuple[answers.OpeningLine, ...]
    label_of: dict[str, str]
    """The opening of each node."""
    left_out: int
    note: str
    shape: int = 0
    """The same number: the same nodes and edges."""


def _read(inspector: Inspector, app: str = "") -> SeenFunctions:
    """The snapshots of all openings, or of that of one app, as one. Ids get the opening if there are several."""
    try:
        views = inspector.ask(GetGraph(limit=NODES_MAX))
    except NotFoundError as error:
        # No function has run here: the sentence says what to do.
        empty = Snapshot(space="", at_ms=0, seq=0)
        return SeenFunctions(empty, (), {}, 0, error.message)
    lines = tuple(opening_line(view) for view in views)
    chosen = [view for view in views if app in ("", view.label)]
    if app and not chosen:
        raise NotFoundError(f"there is no app {app!r} here", app=app)
    several = len(chosen) > 1
    nodes: list[NodeView] = []
    sources: dict[str, SourceView] = {}
    edges: list[Edge] = []
    labels: dict[str, str] = {}
    for view in chosen:
        snapshot = view.snapshot
        if snapshot is None:
            continue
        head = f"{view.label}/" if several else ""
        own = {node.id for node in snapshot.nodes}

        def named(each: str, own: set[str] = own, head: str = head) -> str:
            return f"{head}{each}" if each in own else each

        for node in snapshot.nodes:
            labels[named(node.id)] = view.label
            parent = None if node.parent is None else named(node.parent)
            nodes.append(msgspec.structs.replace(node, id=named(node.id), parent=parent) if several else node)
        sources |= {source.id: source for source in snapshot.sources}
        edges += [Edge(named(each.source), named(each.target), each.kind) for each in snapshot.edges]
    written = {f"doc:{address}" for node in nodes for address in node.outputs} if several else set()
    first = next((view.snapshot for view in chosen if view.snapshot is not None), None)
    merged = Snapshot(
        space=chosen[0].space if chosen else "",
        at_ms=max((view.at_ms for view in chosen), default=0),
        seq=max((view.snapshot.seq for view in chosen if view.snapshot is not None), default=0),
        nodes=tuple(nodes),
        sources=tuple(source for source in sources.values() if source.id not in written),
        edges=tuple(edges) if not written else tuple(_rewired(edges, nodes, written)),
    )
    return SeenFunctions(
        merged if several or first is None else first, lines, labels, sum(view.left_out for view in chosen), ""
    )


def _rewired(edges: Sequence[Edge], nodes: Sequence[NodeView], written: set[str]) -> Iterable[Edge]:
    """A document that one app writes and another reads becomes an edge between their functions."""
    writer = {f"doc:{address}": node.id for node in nodes for address in node.outputs}
    for edge in edges:
        source = writer[edge.source] if edge.source in written else edge.source
        if source != edge.target:
            yield Edge(source, edge.target, edge.kind)


def opening_line(view: GraphView) -> answers.OpeningLine:
    """One opening."""
    return answers.OpeningLine(label=view.label, app=view.app, pid=view.pid, origin=view.origin, headline=view.headline)


def tone_of(node: NodeView) -> answers.Tone:  # one for each state
    """The state of a function as one word."""
    if node.error:
        return "failed"
    if node.in_flight:
        return "running"
    if node.waiting or node.gate:
        return "waiting"
    if node.kind == "handler":
        return "clean" if node.runs else "never-ran"
    if not node.live:
        return "dormant"
    return node.status


# --- the picture ----------------------------------------------------------------------------------------------


def graph(
    inspector: Inspector, sight: Sight, drawings: Drawings, question: questions.GraphQuestion
) -> answers.GraphAnswer:
    """Boxes, routes and states."""
    found = sight.seen(inspector, question.app)
    snapshot = found.snapshot
    shown = around(snapshot, question.around, question.hops) if question.around else snapshot
    shape = (found.shape, question.around, question.hops)
    drawing = drawings.drawing(shown, max(1, min(question.boxes, BOXES)), shape)
    return answers.GraphAnswer(
        structure=drawing.structure,
        seq=snapshot.seq,
        boxes=drawing.boxes,
        routes=drawing.routes,
        states=states(drawing, shown.nodes),
        width=drawing.width,
        height=drawing.height,
        nodes=len(snapshot.nodes),
        folded=drawing.folded,
        left_out=found.left_out,
        note=found.note or drawing.note,
        tones=tones(snapshot.nodes),
        apps=found.openings,
    )


def tones(nodes: Iterable[NodeView]) -> dict[str, int]:
    """The number of functions in each state."""
    return dict(Counter(map(tone_of, nodes)))


def states(drawing: Drawing, nodes: Sequence[NodeView]) -> tuple[answers.State, ...]:
    """The state of each box with functions: the first in `TONES` that a member has."""
    by_box: dict[int, list[NodeView]] = {}
    for node in nodes:
        by_box.setdefault(drawing.box_of[node.id], []).append(node)
    return tuple(_state(box, members) for box, members in sorted(by_box.items()))


def _state(box: int, members: list[NodeView]) -> answers.State:
    worst = members[0] if len(members) == 1 else min(members, key=lambda node: _RANK[tone_of(node)])
    runs = sum(node.runs for node in members)
    total = sum(node.runs * node.mean_ms for node in members)
    note = first_line(worst.error) if worst.error else worst.gate
    return answers.State(box, tone_of(worst), runs, round(total / runs, 3) if runs else 0.0, inert(note))


def around(snapshot: Snapshot, node: str, hops: int) -> Snapshot:
    """What is within so many edges of a node. Raises NotFoundError."""
    ids = {each.id for each in snapshot.nodes} | {each.id for each in snapshot.sources}
    if node not in ids:
        raise NotFoundError(f"there is no function {node!r} here (any more)", node=node)
    near: dict[str, set[str]] = {}
    for edge in snapshot.edges:
        near.setdefault(edge.source, set()).add(edge.target)
        near.setdefault(edge.target, set()).add(edge.source)
    chosen, edge_of = {node}, {node}
    for _ in range(max(0, min(hops, 8))):
        edge_of = {other for each in edge_of for other in near.get(each, ())} - chosen
        chosen |= edge_of
    return msgspec.structs.replace(
        snapshot,
        nodes=tuple(each for each in snapshot.nodes if each.id in chosen),
        sources=tuple(each for each in snapshot.sources if each.id in chosen),
        edges=tuple(each for each in snapshot.edges if each.source in chosen and each.target in chosen),
    )


# --- the table ------------------------------------------------------------------------------------------------


def functions(
    inspector: Inspector, sight: Sight, drawings: Drawings, question: questions.Functions
) -> answers.FunctionsPage:
    """One page of functions."""
    found = sight.seen(inspector, question.app)
    drawing = drawings.drawing(found.snapshot, BOXES, (found.shape,))
    nodes: list[NodeView] = list(found.snapshot.nodes)
    if question.box:
        at = drawing.box_of.get(question.box)
        nodes = [] if at is None else [node for node in nodes if drawing.box_of[node.id] == at]
    if question.search:
        wanted = question.search.lower()
        nodes = [node for node in nodes if wanted in titled(node).lower()]
    if question.tone:
        nodes = [node for node in nodes if tone_of(node) == question.tone]
    match question.sort:
        case "name":
            nodes.sort(key=lambda node: (titled(node), node.id))
        case "runs":
            nodes.sort(key=lambda node: (-node.runs, node.id))
        case "time":
            nodes.sort(key=lambda node: (-node.runs * node.mean_ms, node.id))
        case "state":
            nodes.sort(key=lambda node: (_RANK[tone_of(node)], titled(node)))
    start, limit = max(question.after, 0), max(1, min(question.limit, PAGE_MAX))
    rows = tuple(_row(node, found.label_of.get(node.id, ""), drawing) for node in nodes[start : start + limit])
    end = start + len(rows)
    return answers.FunctionsPage(functions=rows, total=len(nodes), next=end if end < len(nodes) else 0)


def _row(node: NodeView, app: str, drawing: Drawing) -> answers.FunctionRow:
    return answers.FunctionRow(
        id=node.id,
        box=_box_id(drawing, node.id),
        name=inert(node.name),
        piece=inert(node.piece),
        app=app,
        kind=node.kind,
        tone=tone_of(node),
        runs=node.runs,
        mean_ms=node.mean_ms,
        error=first_line(node.error),
        gate=node.gate,
        file=node.file,
        line=node.line,
    )


def node_names(inspector: Inspector, sight: Sight, drawings: Drawings) -> tuple[dict[str, str], dict[str, str]]:
    """The name and the box of each function, by the ids of the trace."""
    found = sight.seen(inspector)
    drawing = drawings.drawing(found.snapshot, BOXES, (found.shape,))
    names: dict[str, str] = {}
    boxes: dict[str, str] = {}
    for node in found.snapshot.nodes:
        own = node.id.removeprefix(f"{found.label_of.get(node.id, '')}/")
        names[own], boxes[own] = titled(node), _box_id(drawing, node.id)
    return names, boxes


def _box_id(drawing: Drawing, node: str) -> str:
    at = drawing.box_of.get(node)
    return "" if at is None else drawing.boxes[at].id


def function(
    inspector: Inspector, sight: Sight, drawings: Drawings, question: questions.FunctionQuestion
) -> answers.FunctionDetail:
    """One function. Raises NotFoundError."""
    found = sight.seen(inspector)
    snapshot = found.snapshot
    node = next((each for each in snapshot.nodes if each.id == question.node), None)
    if node is None:
        # A link of an earlier opening, or a name that a person typed.
        named = [each for each in snapshot.nodes if titled(each) == question.node or each.name == question.node]
        if not named:
            raise NotFoundError(f"there is no function {question.node!r} here (any more)", node=question.node)
        node = named[0]
    label = found.label_of.get(node.id, "")
    drawing = drawings.drawing(snapshot, BOXES, (found.shape,))
    reading = {edge.target for edge in snapshot.edges if edge.kind == "data" and edge.source == node.id}
    readers = [each for each in snapshot.nodes if each.id in reading]
    value = None
    if node.kind == "computation" and node.outputs:
        try:
            value = value_text(inspector.ask(GetValue(address=node.outputs[0])).value)
        except NotFoundError:
            value = None
    return answers.FunctionDetail(
        id=node.id,
        box=_box_id(drawing, node.id),
        name=inert(node.name),
        piece=inert(node.piece),
        app=label,
        kind=node.kind,
        tone=tone_of(node),
        state=state(node),
        live=node.live,
        why_live=node.why_live,
        why=_why(inspector, snapshot, node, label),
        runs=node.runs,
        mean_ms=node.mean_ms,
        invalidated=node.invalidated,
        error=node.error,
        gate=node.gate,
        reads=node.reads,
        writes=node.outputs,
        envelopes=node.envelopes,
        readers=tuple(answers.Part(text=titled(each), kind="function", target=each.id) for each in readers),
        parent=node.parent or "",
        waiting=node.waiting,
        file=node.file,
        line=node.line,
        result=value,
    )


def _why(inspector: Inspector, snapshot: Snapshot, node: NodeView, label: str) -> tuple[tuple[answers.Part, ...], ...]:
    """The sentences of `headwater why`."""
    own = node.id.removeprefix(f"{label}/")
    try:
        views = inspector.ask(ExplainNode(node=own))
    except NotFoundError as error:
        return ((answers.Part(text=error.message),),)
    words = next((why.words for view in views if view.label == label for why in view.whys if why.id == own), "")
    nodes = {titled(each): each.id for each in snapshot.nodes}
    nodes |= {f"{name}()": each for name, each in list(nodes.items())}
    documents = frozenset(
        {source.address for source in snapshot.sources}
        | {address for each in snapshot.nodes for address in (*each.outputs, *each.reads)}
    )
    return tuple(sentence_parts(line, nodes, documents) for line in words.split("\n") if line.strip())
