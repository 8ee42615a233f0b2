"""A space as lines of JSON, out and in again: nothing is lost, and a line that is wrong is named."""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import AddressError, HeadwaterError, MigrationError, UsageError
from headwater.store.branching import fork, merge
from headwater.store.commit import Committed, SetDoc, Submission
from headwater.store.engine import Engine
from headwater.store.log_rebuild import check_log
from headwater.store.portable import (
    batches,
    export_documents,
    export_log,
    parse_documents,
    parse_log,
    read_header,
    unaltered,
)
from headwater.store.verification import verify
from headwater.values.address import doc_key, user_scope
from headwater.values.codec import encode
from headwater.values.ids import MAIN, BranchId, Seq
from headwater.values.tree import freeze
from headwater.values.value_limits import DEPTH_MAX
from tests.support.halves import examples
from tests.support.naive import exact, plain
from tests.support.spaces import Space, append, drop, edit, put

VALUES: dict[str, object] = {
    "null": None,
    "truth": True,
    "int": -(2**63),
    "large": 2**64 - 1,
    "float": 0.1,
    "whole float": 1.0,
    "minus zero": -0.0,
    "tiny": 5e-324,
    "text": 'quote " slash \\ / newline \n nul \0 é 🦆 \u2028',
    "empty": "",
    "bytes": bytes(range(256)),
    "no bytes": b"",
    "list": [1, [2, [3, {}]], []],
    "map": {"": 1, "a/b": 2, "~": 3, "/": 4},
    "link": {"/": {"link@1": {"id": "x", "path": ["a", 0]}}},
    "looks like bytes": {"/": {"bytes@1": "AAAA"}},
    "looks quoted": {"/": {"quote@1": {"/": {"bytes@1": "!"}}}},
    "wide map": {f"k{n}": n for n in range(2000)},
    "wide list": list(range(2000)),
}


def import_documents(engine: Engine, lines: list[str], session: str = "import") -> None:
    """What the command does, in short."""
    from headwater.store.commit import Commit
    from headwater.values.ids import LocalSeq, SessionId

    assert read_header(lines[0]).headwater == "documents"
    for number, operations in enumerate(batches(parse_documents(lines[1:])), 1):
        [outcome] = engine.admit([Submission(Commit(SessionId(session), LocalSeq(number), operations))])
        assert isinstance(outcome.verdict, Committed)


@pytest.fixture
def other(tmp_path: Path) -> Space:
    folder = tmp_path / "other"
    folder.mkdir()
    return Space("memory", folder)


def test_every_kind_of_value_survives(space: Space, other: Space) -> None:
    ann = space.writer("ann")
    ann.accept(*[put(name, value) for name, value in VALUES.items()])
    import_documents(other.engine, list(export_documents(space.engine, "notes")))
    assert {doc: exact(value) for doc, value in other.values().items()} == {
        doc_key(name): exact(value) for name, value in VALUES.items()
    }


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["/", "bytes@1", "quote@1", "link@1", "", "k"]) | st.text(), inner, max_size=4
        )
    ),
    max_leaves=12,
)
NAMES = st.text(min_size=1).filter(lambda name: not any("\ud800" <= c <= "\udfff" for c in name))


@settings(max_examples=examples(60))
@given(documents=st.dictionaries(NAMES, JSON_VALUES, max_size=6))
def test_any_documents_survive(documents: dict[str, object]) -> None:
    first, second = Space("memory", Path()), Space("memory", Path())
    for number, (name, value) in enumerate(documents.items(), 1):
        first.writer("ann").accept(put(name, value), number=number)
    lines = list(export_documents(first.engine, "notes"))
    assert all(line.endswith("\n") and "\n" not in line[:-1] for line in lines)
    import_documents(second.engine, lines)
    assert {doc: exact(value) for doc, value in second.values().items()} == {
        doc_key(name): exact(plain(freeze(value))) for name, value in documents.items()
    }


def test_document_of_the_full_depth_survives(space: Space, other: Space) -> None:
    def nested(depth: int) -> object:
        value: object = 0
        for _ in range(depth):
            value = [value]
        return value

    ann = space.writer("ann")
    ann.accept(put("deep", {"m": nested(DEPTH_MAX - 1)}))
    import_documents(other.engine, list(export_documents(space.engine, "notes")))
    # By their bytes: to walk so deep a value, the helpers of these tests would need more stack than there is.
    first, second = (
        encode(place.engine.documents.at(MAIN, doc_key("deep"), Seq(1)).value)  # type: ignore[arg-type]
        for place in (space, other)
    )
    assert first == second


def test_deleted_documents_are_not_exported(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1), put("b", 1))
    ann.accept(drop("a"))
    assert [json.loads(line)["doc"] for line in list(export_documents(space.engine, "notes"))[1:-1]] == ["b"]


def test_export_is_as_of_one_place_and_branch(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    fork(space.engine, space.clock, "draft")
    space.writer("bob", "draft").accept(put("a", 2))
    ann.accept(put("a", 3))
    exported = {
        (branch, at): json.loads(list(export_documents(space.engine, "n", BranchId(branch), Seq(at)))[1])["value"]
        for branch, at in (("main", 1), ("main", 4), ("draft", 2), ("draft", 4))
    }
    assert exported == {("main", 1): 1, ("main", 4): 3, ("draft", 2): 1, ("draft", 4): 2}


def test_scopes_survive(space: Space, other: Space) -> None:
    keys = [doc_key("a"), doc_key("a", user_scope("ann")), doc_key("x!y"), doc_key("user:ann!a"), doc_key("a/b~c")]
    space.writer("ann").accept(*[SetDoc(key, number) for number, key in enumerate(keys)])
    import_documents(other.engine, list(export_documents(space.engine, "notes")))
    assert other.values() == dict(zip(keys, range(len(keys)), strict=True))


def test_documents_are_imported_in_commits_of_bounded_size(other: Space) -> None:
    operations = (put(f"d{number}", "x" * 10_000) for number in range(2500))
    sizes = [len(batch) for batch in batches(operations)]
    assert sum(sizes) == 2500
    assert max(sizes) <= 1000
    assert list(batches([])) == []
    assert other.engine.head == 0


# --- with the past ---


def test_log_rebuilds_the_very_same_space(space: Space, other: Space) -> None:
    ann = space.writer("ann")
    ann.accept(*[put(name, value) for name, value in VALUES.items()])
    fork(space.engine, space.clock, "draft", at=Seq(1))
    space.writer("bob", "draft").accept(edit("list", append(items=[b"\0"])), drop("map"))
    merge(space.engine, BranchId("draft"))
    ann.accept(drop("text"))
    lines = list(export_log(space.engine, "notes"))
    header = read_header(lines[0])
    assert (header.headwater, header.space, header.seq) == ("log", "notes", 5)
    other.backend.append(list(parse_log(lines[1:])), None)
    other.backend.set_meta("space_id", header.id)
    engine = other.reopen()
    assert list(other.backend.log(Seq(0), Seq(99))) == list(space.backend.log(Seq(0), Seq(99)))
    for branch in ("main", "draft"):
        for seq in range(6):
            for name in VALUES:
                assert exact(other.value(name, branch, seq)) == exact(space.value(name, branch, seq))
    assert verify(engine).ok
    assert list(export_log(engine, "notes")) == lines


# --- lines that are wrong ---

WRONG_HEADERS = ["", "{}", "[]", "null", '{"headwater":"documents"}', "hello", '{"headwater":"log","format":1}']


@pytest.mark.parametrize("line", WRONG_HEADERS)
def test_first_line_that_is_no_header_is_named(line: str) -> None:
    with pytest.raises(UsageError, match="line 1"):
        read_header(line)


@pytest.mark.parametrize(("kind", "number"), [("documents", 3), ("log", 99), ("other", 1)])
def test_export_of_a_newer_version_is_refused(kind: str, number: int) -> None:
    with pytest.raises(UsageError, match=f"line 1 announces {kind} in format {number}"):
        read_header(json.dumps({"headwater": kind, "format": number, "space": "x", "seq": 1}))


WRONG_DOCUMENTS = [
    "",
    "{",
    "null",
    "3",
    "[]",
    '{"doc": "a"}',
    '{"value": 1}',
    '{"doc": 3, "value": 1}',
    '{"doc": null, "value": 1}',
    '{"doc": "", "value": 1}',
    '{"doc": "a/b", "value": 1}',
    '{"doc": "a~2", "value": 1}',
    '{"doc": "a", "value": NaN}',
    '{"doc": "a", "value": Infinity}',
    '{"doc": "a", "value": 1e999}',
    '{"doc": "a", "value": 99999999999999999999999}',
    '{"doc": "a", "value": {"/": {"bytes@1": "no base64!"}}}',
    '{"doc": "a", "value": "\\ud800"}',
    '{"doc": "\\ud800", "value": 1}',
    '{"doc": "a", "value": ' + "[" * 5000 + "]" * 5000 + "}",
    '{"doc": "a", "value": ' + "[" * 200_000 + "]" * 200_000 + "}",
    json.dumps({"doc": "a", "value": {"x" * 5000: 1}}),
    json.dumps({"doc": "x" * 5000, "value": 1}),
]


@pytest.mark.parametrize("line", WRONG_DOCUMENTS[1:], ids=range(1, len(WRONG_DOCUMENTS)))
def test_line_that_is_no_document_is_named_by_its_number(line: str) -> None:
    good = '{"doc": "fine", "value": 1}'
    with pytest.raises(HeadwaterError, match="line 4") as caught:
        list(parse_documents([good, "\n", line, good]))
    assert isinstance(caught.value, UsageError | AddressError)
    assert caught.value.facts["line"] == 4
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "{}",
        "[]",
        "null",
        '{"seq": 1}',
        '{"seq": 1, "body": 3}',
        '{"seq": 1, "body": "!"}',
        '{"seq": "x", "body": "kA=="}',
        '{"seq": 1, "body": "kA=="}',
        '{"seq": 1, "body": ""}',
    ],
)
def test_line_that_is_no_entry_of_a_log_is_named_by_its_number(space: Space, line: str) -> None:
    space.writer("ann").accept(put("a", 1))
    [_, good, _] = export_log(space.engine, "notes")
    with pytest.raises(UsageError, match="line 3"):
        list(parse_log([good, line]))


def test_empty_space_exports_its_header_and_that_nothing_follows(space: Space) -> None:
    for lines in (export_documents(space.engine, "notes"), export_log(space.engine, "notes")):
        [_, last] = map(json.loads, lines)
        assert last["end"] == 0


def test_log_with_a_map_out_of_order_is_refused(space: Space) -> None:
    space.writer("ann").accept(put("a", {"x": 1, "y": 2}))
    header, line, _ = export_log(space.engine, "notes")
    assert [row.seq for row in parse_log([line])] == [1]
    body = a2b_base64(json.loads(line)["body"])
    swapped = body.replace(b"\xa1x\x01\xa1y\x02", b"\xa1y\x02\xa1x\x01")
    assert swapped != body
    forged = json.dumps({"seq": 1, "body": b2a_base64(swapped, newline=False).decode()})
    with pytest.raises(UsageError, match=r"line 2 .* not in the one form"):
        list(parse_log([forged]))
    assert header


# --- the digest of the last line ---


def lines_of(space: Space, kind: str) -> list[str]:
    export = export_log if kind == "log" else export_documents
    return list(export(space.engine, "notes"))


def taken(lines: list[str]) -> int:
    """How many entries an export has, once it is checked; as the command does it."""
    header = read_header(lines[0])
    checked = unaltered(lines[0], lines[1:], header)
    rows = check_log(checked, header.seq) if header.headwater == "log" else parse_documents(checked, ends=header.ends)
    return sum(1 for _ in rows)


@pytest.fixture
def written(space: Space) -> Space:
    ann = space.writer("ann")
    for number in range(5):
        ann.accept(put(f"d{number}", {"n": number}))
    return space


@pytest.mark.parametrize("kind", ["log", "documents"])
def test_export_ends_with_a_digest_of_all_lines_before(written: Space, kind: str) -> None:
    lines = lines_of(written, kind)
    assert taken(lines) == 5
    # As a text editor, or another system, leaves the ends of lines.
    assert taken([line.rstrip("\n") + "\r\n" for line in lines]) == 5
    assert taken([*lines, "\n"]) == 5
    header = json.loads(lines[0])
    assert (header["format"], header["ends"], header["features"]) == (2, True, [])


def altered_body(line: str) -> str:
    """Another value in an entry of the log, which is as well-formed as before."""
    record = json.loads(line)
    body = a2b_base64(record["body"]).replace(b"\xa1n\x02", b"\xa1n\x07")
    return json.dumps({**record, "body": b2a_base64(body, newline=False).decode()}, separators=(",", ":")) + "\n"


def test_altered_entry_of_a_log_is_noticed(written: Space) -> None:
    lines = lines_of(written, "log")
    changed = altered_body(lines[3])
    assert changed != lines[3]
    with pytest.raises(UsageError, match="the export was altered after it was written: the digest in line 7"):
        taken([*lines[:3], changed, *lines[4:]])


@pytest.mark.parametrize("kind", ["log", "documents"])
def test_altered_first_line_is_noticed(written: Space, kind: str) -> None:
    lines = lines_of(written, kind)
    with pytest.raises(UsageError, match="altered"):
        taken([lines[0].replace("notes", "votes"), *lines[1:]])


@pytest.mark.parametrize("kind", ["log", "documents"])
def test_export_without_its_last_line_is_cut_off(written: Space, kind: str) -> None:
    with pytest.raises(UsageError, match="the export is cut off"):
        taken(lines_of(written, kind)[:-1])


def test_log_whose_last_line_has_no_digest_is_refused(written: Space) -> None:
    lines = lines_of(written, "log")
    with pytest.raises(UsageError, match="altered"):
        taken([*lines[:-1], '{"end":5}\n'])


@pytest.mark.parametrize("kind", ["log", "documents"])
def test_lines_after_the_last_are_refused(written: Space, kind: str) -> None:
    lines = lines_of(written, kind)
    with pytest.raises(UsageError, match="line 8 comes after"):
        taken([*lines, lines[3]])


def test_documents_that_were_changed_on_purpose_are_taken_without_the_digest(written: Space) -> None:
    lines = lines_of(written, "documents")
    lines[2] = lines[2].replace('"n":1', '"n":100')
    with pytest.raises(UsageError, match='remove "digest" from that line'):
        taken(lines)
    assert taken([*lines[:-1], '{"end":5}\n']) == 5


@pytest.mark.parametrize("kind", ["log", "documents"])
def test_export_of_format_1_is_still_taken(written: Space, kind: str) -> None:
    first, *rest, _ = lines_of(written, kind)
    header = {key: value for key, value in json.loads(first).items() if key != "features"} | {"format": 1}
    end = [json.dumps({"end": 5})] if kind == "documents" else []
    assert taken([json.dumps(header), *rest, *end]) == 5


def test_export_with_an_unknown_feature_is_refused(written: Space) -> None:
    first, *rest = lines_of(written, "log")
    header = json.dumps(json.loads(first) | {"features": ["batches=1.7"]})
    with pytest.raises(MigrationError, match=r"uses the feature 'batches', .* install Headwater 1\.7 or newer"):
        taken([header, *rest])
