"""docs/protocol.md says what the code does: examples, fields, states, codes, limits."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
import pytest

from headwater.access import key_admission
from headwater.server import authenticator
from headwater.server import server_limits as serving
from headwater.server.spaces import server_socket
from headwater.store.commit import Operation, Precondition, Verdict
from headwater.sync import frame_limits
from headwater.sync import server_session as talk
from headwater.sync.frames import SUBPROTOCOL, VERSION, FromClient, FromServer, New, Proof
from headwater.values.codec import digest
from headwater.values.patch import PatchOp
from headwater.values.tree import freeze
from headwater.values.value_limits import COMMIT_BYTES_MAX, DOCUMENT_BYTES_MAX, KEY_BYTES_MAX
from tests.docs.test_tables import cells, table_below
from tests.sync.protocol.vectors import COMMAND, PAGE, fill, make

TEXT = PAGE.read_text(encoding="utf-8")
FIELDS = ("field", "type", "default", "")
KINDS: dict[str, Any] = {
    str(kind.__struct_config__.tag): kind for kind in (*get_args(FromClient), *get_args(FromServer))
}
PARTS: dict[str, Any] = {str(kind.__struct_config__.tag): kind for kind in get_args(New)}


def test_examples_are_the_vectors() -> None:
    assert fill(TEXT, make()) == TEXT, f"`{COMMAND}` writes them anew"


def test_every_kind_of_frame_has_an_example() -> None:
    shown = re.findall(r"<!-- vector: (.+) -->", TEXT)
    assert KINDS.keys() <= set(shown)


def tables_after(heading: str) -> list[list[tuple[str, ...]]]:
    """The rows of every table of fields between a heading, or the start of a paragraph, and the next heading."""
    body = re.split(r"^#{2,3} ", TEXT.split(heading, 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    found: list[list[tuple[str, ...]]] = []
    rows: list[tuple[str, ...]] | None = None
    for line in body.splitlines():
        if cells(line) == FIELDS:
            rows = []
            found.append(rows)
        elif rows is not None and line.startswith("|"):
            rows.append(cells(line))
        else:
            rows = None
    return [each[1:] for each in found]


def fields_of(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    found = []
    for each in msgspec.structs.fields(kind):
        default = each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()
        found.append((f"`{each.encode_name}`", "required" if each.required else f"`{_shown(default)}`"))
    return found


def _shown(default: object) -> str:
    if default is None:
        return "nil"
    if isinstance(default, bytes):
        return repr(default)
    return msgspec.json.encode(default).decode()


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_a_frame_are_those_in_the_code(kind: str) -> None:
    tables = tables_after(f"\n### `{kind}`\n")
    assert [(row[0], row[2]) for row in tables[0]] == fields_of(KINDS[kind])


@pytest.mark.parametrize("tag", PARTS)
def test_fields_of_what_is_new_are_those_in_the_code(tag: str) -> None:
    assert [(row[0], row[2]) for row in tables_after(f"\n`{tag}`, ")[0]] == fields_of(PARTS[tag])


def test_fields_of_a_proof_are_those_in_the_code() -> None:
    assert [(row[0], row[2]) for row in tables_after("\n## Signing keys\n")[0]] == fields_of(Proof)
    assert key_admission.LASTS_MAX_MS == 5 * 60_000
    assert key_admission.LEEWAY_MS == 60_000


def words_of(union: object) -> list[tuple[str, int]]:
    """The tag of each record, and of how many parts it is."""
    return [(str(kind.__struct_config__.tag), len(kind.__struct_fields__) + 1) for kind in get_args(union)]


def shapes_after(text: str) -> list[tuple[str, int]]:
    """Of the table below a text whose rows begin with a list in code: the first word of each, and how many parts."""
    table = TEXT.split(text, 1)[1].split("|\n\n", 1)[0]
    rows = re.findall(r'^\| `\["(\w+)"(.*)\]` \|', table, re.MULTILINE)
    return [(word, 1 + rest.count(", ")) for word, rest in rows]


def test_operations_edits_and_preconditions_are_those_in_the_code() -> None:
    assert shapes_after("\n### Operations\n") == words_of(Operation)
    assert shapes_after("\nEdits:\n") == words_of(PatchOp)
    assert shapes_after("\n### Preconditions\n") == words_of(Precondition)


def test_verdicts_are_those_in_the_code() -> None:
    shown = table_below(PAGE, ("`type`", "fields", "what to do"))
    assert [(row[0], row[1]) for row in shown] == [
        (f"`{kind.__struct_config__.tag}`", ", ".join(f"`{name}`" for name in kind.__struct_fields__))
        for kind in get_args(Verdict)
    ]


def test_codes_of_closing_are_those_in_the_code_and_say_which_are_final() -> None:
    shown = {int(code): final for code, _, final in table_below(PAGE, ("code", "why", "final"))}
    codes = {value for name, value in vars(talk.Close).items() if name.isupper()}
    assert codes <= shown.keys()
    assert {code for code in codes if shown[code] == "yes"} == talk.FATAL


def test_states_are_those_in_the_code() -> None:
    shown = table_below(PAGE, ("state", "what may come", "then"))
    names = {name for row in shown for name in (row[0], *row[2].split(", or "))}
    assert names == {state.value for state in talk.ServerState}


def test_limits_are_those_in_the_code() -> None:
    shown = {row[0]: int(row[1].replace(",", "")) for row in table_below(PAGE, ("limit", "value", "then"))}
    assert shown == {
        "bytes of a frame": frame_limits.FRAME_BYTES_MAX,
        "bytes of a frame before `open`": frame_limits.GREETING_BYTES_MAX,
        "characters of an actor, all printable, no spaces at the ends": frame_limits.ACTOR_MAX,
        "characters of a session or a branch": frame_limits.NAME_BYTES_MAX,
        "bytes of a document's key": KEY_BYTES_MAX,
        "documents that one session watches": frame_limits.WATCHES_MAX,
        "prefixes that one session watches": frame_limits.PREFIXES_MAX,
        "documents that one question brings": frame_limits.PREFETCH_MAX,
        "bytes that one question brings": frame_limits.PREFETCH_BYTES_MAX,
        "keys in `left`": frame_limits.LEFT_MAX,
        "commits without a verdict": frame_limits.PENDING_MAX,
        "operations, reads and conditions of a commit": frame_limits.PARTS_MAX,
        "spans that one session watches": frame_limits.SPANS_MAX,
        "keys that one question brings": frame_limits.KEYS_MAX,
        "bytes of a bound of a span": frame_limits.SPAN_BOUND_MAX,
        "characters of the name of an index": frame_limits.INDEX_NAME_MAX,
        "questions without an answer": frame_limits.QUESTIONS_MAX,
        "bytes of a document": DOCUMENT_BYTES_MAX,
        "bytes of a commit": COMMIT_BYTES_MAX,
        "frames a second, on average": serving.FRAMES_PER_S,
        "connections": serving.CONNECTIONS_MAX,
        "connections with one token or key": serving.PER_GRANT_MAX,
        "bytes that wait to be sent to one client": serving.OUT_BYTES_MAX,
    }


def test_numbers_in_sentences_are_those_in_the_code() -> None:
    assert f"`{SUBPROTOCOL}`" in TEXT
    assert f"headwater.v{VERSION}" == SUBPROTOCOL
    assert f"more than {server_socket.FRAGMENTS_MAX:,} pieces".replace("more than", "in more than") in TEXT
    assert f"hears nothing for {serving.PING_S:g} seconds" in TEXT
    assert f"opened within {serving.GREETING_S:g} seconds" in TEXT
    assert f"every {frame_limits.ACK_EVERY} frames" in TEXT
    assert f"has {frame_limits.WINDOW} commits without a verdict" in TEXT
    assert authenticator.KEY_SCHEME in TEXT.lower()
    assert len(digest(freeze("ann"))) == 16
