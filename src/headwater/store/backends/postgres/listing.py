"""The spaces and the owners of a database, for people."""

from __future__ import annotations

from typing import Final, NamedTuple

from headwater.store.backends.postgres.database_link import DatabaseLink

_SPACES: Final = (
    "select s.name, s.space_id, s.lineage, s.epoch, s.head, o.name, o.url, s.since::text, "
    "(select coalesce(sum(octet_length(body)), 0)::bigint from hw_log l where l.space = s.id) "
    "from hw_space s left join hw_server o on o.id = s.owner order by s.name"
)
_FEATURES: Final = "select features from hw_space where id = %b"


class SpaceFacts(NamedTuple):
    """A space, and who owns it; None: no program has it open."""

    name: str
    id: str
    lineage: str
    epoch: int
    head: int
    owner: str | None
    url: str | None
    since: str
    bytes: int


def spaces(link: DatabaseLink) -> list[SpaceFacts]:
    """All spaces of the database, by name."""
    return [SpaceFacts(*row) for row in link.run(_SPACES)]


def features(link: DatabaseLink, space: int) -> str:
    """The features that a space uses."""
    found: str = link.run(_FEATURES, [space])[0][0]
    return found
