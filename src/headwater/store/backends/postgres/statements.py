"""The statements that read, and the parts of groups that delete. The first parameter of a reading one is the space."""

from __future__ import annotations

from typing import Final

LAST: Final = "select seq, body, chain, sum from hw_log where space = %b order by seq desc limit 1"
LOG_ROW: Final = "select seq, body, chain, sum from hw_log where space = %b and seq = %b"
LOG_ROWS: Final = "select seq, body, chain, sum from hw_log where space = %b and seq = any(%b::bigint[]) order by seq"
LOG_PAGE: Final = (
    "select seq, body, chain, sum from hw_log where space = %b and seq > %b and seq <= %b order by seq limit %b"
)
BRANCHES: Final = "select name, parent, fork_seq, at, merges, sum from hw_branch where space = %b order by number"
HEAD: Final = "select seq, live, size, since, sum from hw_head where space = %b and branch = %b and doc = %b"
BODIES: Final = (
    "select h.doc, h.seq, h.live, h.size, h.since, h.sum, s.seq, s.body, s.sum from hw_head h "
    "left join hw_snapshot s on s.space = h.space and s.branch = h.branch and s.doc = h.doc and s.seq = h.seq "
    "where h.space = %b and h.branch = %b and h.doc = any(%b::bytea[])"
)
KNOWN: Final = (
    "select t.doc from (select %b::bigint as space) own cross join unnest(%b::bytea[]) t(doc) where exists(select 1 "
    "from hw_branch b join hw_head h on h.space = b.space and h.branch = b.name where b.space = own.space "
    "and h.doc = t.doc)"
)
HEADS: Final = (
    "select doc, seq, live, size, since, sum, whole from hw_head "
    "where space = %b and branch = %b and doc >= %b and doc < %b order by doc limit %b"
)
HEAD_SEQS: Final = "select coalesce(whole, doc), seq, live from hw_head where space = %b and branch = %b"
REVISIONS: Final = (
    "select seq, before from hw_revision where space = %b and branch = %b and doc = %b and seq > %b and seq <= %b "
    "order by seq desc"
)
SNAPSHOT: Final = (
    "select seq, body, sum from hw_snapshot where space = %b and branch = %b and doc = %b and seq <= %b "
    "order by seq desc limit 1"
)
SNAPSHOTS: Final = "select seq, body, sum from hw_snapshot where space = %b and branch = %b and doc = %b order by seq"
OBSERVATION: Final = "select seq, body, sum from hw_observation where space = %b and branch = %b and doc = %b"
OBSERVATIONS: Final = (
    "select doc, seq, body, sum, whole from hw_observation "
    "where space = %b and branch = %b and doc >= %b and doc < %b order by doc limit %b"
)
ALL_OBSERVATIONS: Final = "select branch, doc, seq, body, whole, sum from hw_observation where space = %b"
REPLAYED: Final = (
    "select first, last, seq, sum from hw_replay where space = %b and session = %b and first <= %b and last >= %b"
)
LAST_LOCAL: Final = (
    "select first, last, seq, sum from hw_replay where space = %b and session = %b order by first desc limit 1"
)
OLD_SESSIONS: Final = (
    "select session, last, seq + last - first from (select session, first, last, seq, "
    "row_number() over (partition by session order by first desc) as place, "
    "count(*) over (partition by session) as runs from hw_replay where space = %b) r "
    "where place = 1 and seq + last - first <= %b and (runs > 1 or first < last)"
)
INDEXES: Final = (
    "select id, branch, name, since, through, count, digest, sum from hw_index where space = %b order by id"
)
_INDEX: Final = "e.space = i.space and e.idx = i.id and i.space = %b and i.branch = %b and i.name = %b"
ENTRIES: Final = (
    f"select e.key, e.whole from hw_entry e, hw_index i where {_INDEX} and e.key >= %b and e.key < %b "
    "order by e.key limit %b"
)
ENTRIES_BACK: Final = ENTRIES.replace("order by e.key", "order by e.key desc")
ALL_ENTRIES: Final = f"select coalesce(e.whole, e.key) from hw_entry e, hw_index i where {_INDEX}"
ENTRY_COUNT: Final = f"select count(*) from hw_entry e, hw_index i where {_INDEX}"
SHIFTS: Final = "select seq, body, sum from hw_shift where space = %b and seq > %b and seq <= %b order by seq"
OLD_SHIFT: Final = "select seq from hw_shift where space = %b order by seq desc offset {offset} limit 1"
ROWS: Final = "select tbl, key, body, sum from hw_row where space = %b order by tbl, key"
FACT: Final = "select value, sum from hw_fact where space = %b and key = %b"
COLUMN: Final = "select {name} from hw_space where id = %b"
BYTES_USED: Final = "select coalesce(sum(octet_length(body)), 0)::bigint from hw_log where space = %b"

# Parts of groups.

_THESE: Final = "unnest(%b::bytea[], %b::bytea[]) t(branch, doc)"
UNOBSERVE: Final = (
    f"delete from hw_observation o using own, {_THESE} where o.space = own.id and o.branch = t.branch and o.doc = t.doc"
)
DROP_RUNS: Final = (
    "delete from hw_replay r using own, unnest(%b::bytea[], %b::bigint[]) t(session, last) "
    "where r.space = own.id and r.session = t.session and r.last < t.last"
)
SHORTEN_RUNS: Final = (
    "update hw_replay r set first = t.last, seq = t.seq, sum = t.sum from own cross join "
    "unnest(%b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[]) t(session, last, seq, sum) "
    "where r.space = own.id and r.session = t.session and r.last = t.last"
)
PURGE_HEADS: Final = (
    f"delete from hw_head o using own, {_THESE} where o.space = own.id and o.branch = t.branch and o.doc = t.doc"
)
PURGE_OBSERVATIONS: Final = UNOBSERVE
DROP_LOG: Final = "delete from hw_log l using own where l.space = own.id and l.seq <= %b"
DROP_REVISIONS: Final = (
    "delete from hw_revision r using own where r.space = own.id and (r.seq <= %b "
    f"or (r.branch, r.doc) in (select t.branch, t.doc from {_THESE}))"
)
DROP_SNAPSHOTS: Final = (
    "delete from hw_snapshot s using own where s.space = own.id and "
    f"((s.branch, s.doc) in (select t.branch, t.doc from {_THESE}) or s.seq < (select max(n.seq) from hw_snapshot n "
    "where n.space = s.space and n.branch = s.branch and n.doc = s.doc and n.seq <= %b))"
)
DROP_SHIFTS: Final = "delete from hw_shift s using own where s.space = own.id and s.seq <= %b"
