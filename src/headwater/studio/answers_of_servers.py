"""The records that answer a page: a server; and what is done, or about to be."""

from __future__ import annotations

from headwater.studio.answer_parts import AnswerRecord

# --- Server ---------------------------------------------------------------------------------------------------


class ClientRow(AnswerRecord, frozen=True, kw_only=True):
    """A connected client of a space."""

    id: str
    """For the deed `session`."""
    actor: str
    space: str
    since_ms: int
    watches: int
    lag: int
    """Bytes that it has not read yet."""
    pending: int
    """Commits that wait for a verdict."""
    app: str = ""
    rights: str = ""
    token: str = ""
    """The id of its token or key."""
    peer: str = ""
    """The address it comes from."""


class SessionRow(AnswerRecord, frozen=True, kw_only=True):
    """A person who has logged in to the Studio."""

    id: str
    """For the deed `session`."""
    actor: str
    rights: str
    since_ms: int
    until_ms: int
    token: str = ""
    """The id of the token."""
    peer: str = ""


class TokenRow(AnswerRecord, frozen=True, kw_only=True):
    """A token or key: never its secret."""

    id: str
    actor: str
    """A name, `any`, or empty for none."""
    rights: str
    spaces: str
    """A name, or * for every space."""
    created_ms: int
    expires_ms: int
    """0: never."""
    state: str
    """live or expired."""
    kind: str = "token"
    """token or key."""
    roles: tuple[str, ...] = ()
    note: str = ""
    connections: int = 0


class ServedSpace(AnswerRecord, frozen=True, kw_only=True):
    """A space of the server."""

    name: str
    is_open: bool
    clients: int
    watches: int
    seq: int
    """The newest commit; 0: it is not open."""
    trouble: str
    """Why nothing can be written."""


class ServerView(AnswerRecord, frozen=True, kw_only=True):
    """What a server has, as far as the viewer may see it."""

    url: str
    version: str
    clients: tuple[ClientRow, ...]
    sessions: tuple[SessionRow, ...]
    tokens: tuple[TokenRow, ...]
    metrics: dict[str, float]
    audit: str
    """What the verification of the audit log says."""
    spaces: tuple[ServedSpace, ...] = ()
    hidden: str = ""
    """What the viewer may not see, and why, in a sentence; empty: everything is shown."""


class AuditLine(AnswerRecord, frozen=True, kw_only=True):
    """One line of the audit log."""

    number: int
    at_ms: int
    actor: str
    """Who did it, as far as the line says it."""
    act: str
    """The event."""
    sentence: str
    """The facts, in one line."""


class AuditPage(AnswerRecord, frozen=True, kw_only=True):
    """Lines, newest first."""

    lines: tuple[AuditLine, ...]
    verified: bool
    sentence: str
    next: int


# --- deeds ----------------------------------------------------------------------------------------------------


class IntentView(AnswerRecord, frozen=True, kw_only=True):
    """What a deed is about to do."""

    sentence: str
    """As "Skip invoice 13: it will never be handled"."""
    command: str
    """The same deed on the command line."""
    button: str
    """The verb as its name."""
    asks: bool
    """A dialog shows the sentence first, with the focus on Cancel."""
    allowed: bool
    why_not: str


class DeedReport(AnswerRecord, frozen=True, kw_only=True):
    """What was done."""

    sentence: str
    command: str
    seq: int = 0
    """The commit; 0: none."""
    opens: str = ""
    """The address of what resulted, as `events/EVENT` or `documents/KEY`."""
    secret: str = ""
    """A new token, shown once."""
    download: str = ""
    """The path of a download that works once, for 30 s."""
