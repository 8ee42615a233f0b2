"""Operations as Python, for the timeline of a world."""

from __future__ import annotations

from collections.abc import Sequence

from sim.apps import parts as p
from sim.apps.source import statements
from sim.program import operations as o


def shown(operation: o.Operation, app: p.App) -> str:
    """What a person would have written."""
    try:
        return _python(operation, app)
    except KeyError:
        # It names a declaration that this version of the app does not have.
        return repr(operation)


def _python(operation: o.Operation, app: p.App) -> str:  # noqa: C901, PLR0911  # one case for each kind
    match operation:
        case o.Write(step=step):
            return "\n".join(statements(app, [step]))
        case o.Block():
            return _block(operation, app)
        case o.Send(tag=tag, handler=handler, n=n, wait=wait, once=once):
            sender = f"{handler}.once({once!r})" if once else handler
            return f"{sender}.send({n}, {once or tag!r}){'.result()' if wait else ''}"
        case o.Call(fn=fn, argument=argument):
            return f"{fn}({'' if argument is None else argument})"
        case o.Pass(seconds=seconds):
            return f"{seconds:g} s pass"
        case o.StopSink(sink=sink):
            return f"{sink}.stop()"
        case o.Piece(pattern=pattern, key=key, how=how, tag=tag):
            return f"{pattern}[{key!r}].{how}()  # {tag}"
        case o.Reopen(edit=edit, aside=aside):
            written = "".join(f"; meanwhile {cell} = {value}" for cell, value in aside)
            return f"close, and open {'the next version' if edit else 'again'}{written}"
        case o.Care(how=how):
            return f"{how} of the file"
        case o.Settle() | o.Sync() | o.Redeliver():
            return f"{type(operation).__name__.lower()}()"
        case _:
            return repr(operation)


def _block(block: o.Block, app: p.App) -> str:
    rows = [f"with transaction():  # {block.tag}{f', n = {block.n}' if block.n else ''}"]
    if block.inner:
        rows += ["    with transaction():  # fails", *_indented(_indented(statements(app, block.inner)))]
    if block.pause:
        rows.append(f"    ...  # reads what it needs, and waits {block.pause:g} s")
    return "\n".join(rows + _indented(statements(app, block.steps)))


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
