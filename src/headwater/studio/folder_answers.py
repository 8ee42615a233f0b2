"""The spaces of a folder or a server, one row each."""

from __future__ import annotations

from typing import Final, Literal, cast

from headwater.errors import HeadwaterError
from headwater.inspect.space_records import GetPulse, ListKinds
from headwater.inspect.workflow_records import ListWorkflows
from headwater.machine import machine
from headwater.studio import answers, questions
from headwater.studio.host import Login, StudioHost
from headwater.studio.limits import PAGE_MAX

_LOOK_S: Final = 1.0
"""Seconds for the spaces of one page. The others are only named."""


def spaces(host: StudioHost, login: Login, question: questions.Spaces) -> answers.SpacesView:
    """One page of spaces, by name."""
    names = sorted(name for name in host.spaces(login) if name > question.after)
    page = names[: max(1, min(question.limit, PAGE_MAX))]
    ends = machine().monotonic() + _LOOK_S
    rows = tuple(_row(host, login, name, looks=machine().monotonic() < ends) for name in page)
    return answers.SpacesView(spaces=rows, next=page[-1] if len(page) < len(names) else "")


def _row(host: StudioHost, login: Login, name: str, *, looks: bool) -> answers.SpaceRow:
    live = cast("Literal['live', 'closed', 'server']", host.state(login, name))
    seq = documents = waits = 0
    sentence = "not read: there are many spaces"
    if looks:
        try:
            with host.inspector(login, name, "main") as inspector:
                seq = inspector.ask(GetPulse()).seq
                documents = sum(kind.count for kind in inspector.ask(ListKinds()).kinds)
                waits = sum(flow.waiting for flow in inspector.ask(ListWorkflows()).flows)
            sentence = f"{waits} wait for you" if waits else "nothing waits"
        except (HeadwaterError, OSError) as error:
            sentence = str(error)
    return answers.SpaceRow(name=name, live=live, seq=seq, documents=documents, waits=waits, sentence=sentence)
