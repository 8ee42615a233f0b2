"""Whatever is changed behind the program's back, verify finds it; and what was not changed, it does not complain of."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from shutil import copyfile
from zlib import crc32

import apsw
import pytest

from headwater.errors import CorruptError
from headwater.store.backend import GENESIS
from headwater.store.branching import fork, merge
from headwater.store.compaction import compact
from headwater.store.verification import VerificationReport, verify
from headwater.values.address import doc_key
from headwater.values.codec import encode
from headwater.values.ids import BranchId, Seq
from headwater.values.tree import freeze
from tests.support.spaces import Space, drop, edit, put, replace

BODY = encode(freeze({"t": "forged"}))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space with everything in it, folded: made once, copied for each test."""
    space = Space("sqlite", tmp_path_factory.mktemp("original"))
    ann = space.writer("ann")
    ann.accept(put("a", {"t": ""}), put("b", 1))
    for number in range(60):
        ann.accept(edit("a", replace("t", to=f"{number:0150}")))
        if number == 40:
            space.engine.fold()
    ann.accept(drop("b"))
    fork(space.engine, space.clock, "draft")
    space.writer("bob", "draft").accept(put("c", 2))
    merge(space.engine, BranchId("draft"))
    space.engine.fold()
    assert space.backend.snapshots(BranchId("main"), doc_key("a")), "the tests below need one"
    space.close()
    return space.path


@pytest.fixture
def lived_in(original: Path, tmp_path: Path) -> Iterator[Space]:
    copyfile(original, tmp_path / "space.db")
    space = Space("sqlite", tmp_path)
    yield space
    space.close()


def check(space: Space) -> VerificationReport:
    """Verify after tampering; a space that is refused at open has been found, too."""
    try:
        return verify(space.reopen())
    except CorruptError as error:
        return VerificationReport(findings=[error.message])


def test_untouched_space_has_no_findings_and_is_counted(lived_in: Space) -> None:
    report = verify(lived_in.engine)
    assert (report.ok, report.findings) == (True, [])
    assert (report.commits, report.documents) == (65, 4)
    assert report.snapshots >= 1
    assert check(lived_in).ok


def test_empty_space_has_no_findings(space: Space) -> None:
    assert verify(space.engine).ok


def test_space_that_was_never_folded_has_no_findings(space: Space) -> None:
    space.writer("ann").accept(put("a", 1))
    assert verify(space.engine).ok


def test_progress_is_told_to_the_end(lived_in: Space) -> None:
    seen: list[tuple[int, int]] = []
    verify(lived_in.engine, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (65, 65)


FORGED_LOG = [
    "update log set body = x'00', sum = {sum0} where seq = 30",
    "update log set chain = zeroblob(32) where seq = 30",
    "update log set chain = zeroblob(32) where seq = 65",
    "update log set sum = sum + 1 where seq = 30",
    "delete from log where seq = 30",
    "delete from log where seq = 1",
    "delete from log where seq = 65",
    "delete from log where seq > 40",
    "delete from log",
    "update log set seq = seq + 1 where seq = 65",
    "insert into log select 66, body, chain, sum from log where seq = 65",
    "update log set (body, sum) = (select body, sum from log where seq = 31) where seq = 30",
]


@pytest.mark.parametrize("sql", FORGED_LOG)
def test_forged_log_is_found(lived_in: Space, sql: str) -> None:
    lived_in.tamper(sql.format(sum0=crc32(b"\0")))
    assert not check(lived_in).ok


def test_space_whose_newest_commits_are_missing_is_refused_at_open(lived_in: Space) -> None:
    """Else their places in the log would be given to others."""
    lived_in.tamper("delete from log where seq > 60")
    with pytest.raises(CorruptError, match="the newest commits are missing"):
        lived_in.reopen()


@pytest.mark.parametrize(
    "sql",
    [
        "update log set chain = zeroblob(32) where seq = 66",
        "update log set (body, sum) = (select body, sum from log where seq = 66) where seq = 67",
        "update log set seq = 70 where seq = 67",
        "delete from log where seq = 66",
    ],
)
def test_space_whose_last_commits_were_changed_is_refused_at_open(lived_in: Space, sql: str) -> None:
    """They are not folded yet: opening replays them, and must not replay a forgery."""
    new = lived_in.writer("new")
    new.accept(put("x", 1))
    new.accept(put("y", 2))
    lived_in.tamper(sql)
    with pytest.raises(CorruptError, match=r"does not follow|does not match its checksum"):
        lived_in.reopen()


FORGED_CACHES = [
    "update snapshot set body = {body}, sum = {sum}",
    "update snapshot set body = null, sum = 0",
    "update snapshot set body = {body}",
    "update snapshot set seq = seq + 1",
    "insert into snapshot select branch, doc, 2, {body}, {sum} from snapshot limit 1",
    "insert into snapshot select 1, id, 30, {body}, {sum} from doc where key = 'space/b'",
    "insert into snapshot select 1, id, 30, {body}, {sum} from doc where key = 'space/c'",
    "update head set seq = seq - 1 where doc = (select id from doc where key = 'space/a')",
    "update head set seq = 3 where doc = (select id from doc where key = 'space/b')",
    "update head set live = not live where doc = (select id from doc where key = 'space/b')",
    "update head set live = 0 where doc = (select id from doc where key = 'space/a')",
    "delete from head where doc = (select id from doc where key = 'space/a')",
    "delete from head",
    "insert into head select 2, id, 3, 1, 1, 1, 0 from doc where key = 'space/a'",
    "delete from revision where seq = 30",
    "delete from revision where seq = 62",
    "delete from revision",
    "insert into revision select 1, id, 30, 2 from doc where key = 'space/b'",
    "insert into revision select 1, id, 62, 61 from doc where key = 'space/a'",
    "update revision set seq = 63 where seq = 62",
    "update doc set key = 'space/z' where key = 'space/a'",
    "update doc set key = case key when 'space/a' then 'space/t' else key end",
    "delete from doc where key = 'space/c'",
    "update branch set fork_seq = 3 where name = 'draft'",
    "update branch set parent = null where name = 'draft'",
    "update branch set name = 'other' where name = 'draft'",
    "delete from branch where name = 'draft'",
    "update branch set merges = x'90' where name = 'main'",
    "delete from replay",
    "update replay set seq = seq + 1",
    "update session set name = 'eve' where name = 'ann'",
    "update meta set value = '3' where key = 'folded'",
    "update meta set value = '99' where key = 'folded'",
    "update meta set value = '3' where key = 'horizon'",
    "delete from meta where key = 'folded'",
]


@pytest.mark.parametrize("sql", FORGED_CACHES)
def test_forged_caches_are_found(lived_in: Space, sql: str) -> None:
    lived_in.tamper(sql.format(body=f"x'{BODY.hex()}'", sum=crc32(BODY)))
    assert not check(lived_in).ok


FORGED_AFTER_COMPACTION = [
    "delete from snapshot",
    "delete from snapshot where doc = (select id from doc where key = 'space/a')",
    "delete from snapshot where doc = (select id from doc where key = 'space/b')",
    "update snapshot set body = {body}",
    "update snapshot set seq = seq - 1",
    "update head set seq = seq - 1",
    "delete from head where doc = (select id from doc where key = 'space/b')",
    "update head set live = not live",
    "update meta set value = '0' where key = 'horizon'",
    "update meta set value = '61' where key = 'horizon'",
    "update meta set value = '{zeros}' where key = 'horizon_chain'",
]


@pytest.mark.parametrize("sql", FORGED_AFTER_COMPACTION)
def test_forged_caches_of_a_compacted_space_are_found(lived_in: Space, sql: str) -> None:
    """Below the horizon the snapshots are all there is."""
    compact(lived_in.engine, Seq(60))
    assert check(lived_in).ok
    lived_in.tamper(sql.format(body=f"x'{BODY.hex()}'", zeros="00" * 32))
    assert not check(lived_in).ok


def test_every_finding_of_a_thoroughly_broken_log_is_not_listed(lived_in: Space) -> None:
    lived_in.tamper("update log set chain = zeroblob(32)")
    report = check(lived_in)
    assert 1 <= len(report.findings) <= 100


def test_chain_links_every_commit_to_all_before_it(lived_in: Space) -> None:
    chain = GENESIS
    for row in lived_in.backend.log(Seq(0), Seq(65)):
        chain = sha256(chain + row.body).digest()
        assert row.chain == chain


@pytest.mark.parametrize("page", range(12))
def test_flipped_bit_in_any_page_of_the_file_is_found_or_harmless(lived_in: Space, page: int) -> None:
    """Found, or the file reads exactly as before: free room and unused bytes may hold anything."""
    lived_in.engine.fold()
    before = (lived_in.values(), lived_in.values("draft"))
    lived_in.backend.close()
    data = bytearray(lived_in.path.read_bytes())
    for offset in (100, 1000, 2001, 3005, 4000):
        place = page * 4096 + offset
        if place >= len(data):
            continue
        data[place] ^= 0x10
        lived_in.path.write_bytes(data)
        try:
            report = verify(lived_in.reopen())
            if report.ok:
                assert (lived_in.values(), lived_in.values("draft")) == before
        except CorruptError:
            pass
        finally:
            lived_in.backend.close()
        data[place] ^= 0x10
    lived_in.path.write_bytes(data)
    assert check(lived_in).ok
    assert apsw.sqlite_lib_version()
