"""The conformance vectors say what the code does: for every frame, both ways, and for a whole exchange."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

from headwater.errors import RemoteProtocolError
from headwater.sync.frames import FromClient, FromServer, Transact, encode_frame, read_client, read_server
from headwater.values.codec import from_json
from tests.sync.protocol.exchange import STORIES, Ann, Live, Playback, Step, summary
from tests.sync.protocol.vectors import COMMAND, FILE, again, answer, desk_at, make, plain, read, text_of, without_words

STORED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
STEPS = {name: [msgspec.convert(each, Step) for each in STORED[name]] for name in STORIES}


def named(part: str) -> pytest.MarkDecorator:
    vectors = STORED[part]
    names = [f"{each.get('from', 'client')}: {each['name']}" for each in vectors]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("vector", vectors, ids=names)


def exact(value: object) -> str:
    """JSON in which 1 and 1.0, 0.0 and -0.0 are told apart, and the order of keys counts."""
    return json.dumps(value)


def test_stored_vectors_are_those_that_the_code_makes() -> None:
    made = text_of(make())
    assert FILE.read_text(encoding="utf-8") == made, (
        f"frames have changed. If that is meant, `{COMMAND}` writes {FILE.name} anew; look at docs/protocol.md, and "
        "whether old clients still understand"
    )


def test_every_kind_of_frame_has_a_vector() -> None:
    kinds = {str(kind.__struct_config__.tag) for kind in (*get_args(FromClient), *get_args(FromServer))}
    assert {each["kind"] for each in STORED["frames"]} == kinds


@named("frames")
def test_frame_is_the_same_bytes_after_it_was_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    frame = read(vector["from"], data)
    assert type(frame).__struct_config__.tag == vector["kind"]
    assert encode_frame(frame) == data


@named("frames")
def test_frame_is_its_json_and_its_json_is_the_frame(vector: dict[str, Any]) -> None:
    """As somebody sees it who has no records of ours: MessagePack, and JSON beside it."""
    data = bytes.fromhex(vector["hex"])
    assert exact(plain(data)) == exact(vector["json"])
    assert msgspec.msgpack.encode(from_json(vector["json"])) == data


@named("frames")
def test_frame_of_one_side_is_refused_by_the_same_side(vector: dict[str, Any]) -> None:
    wrong = read_server if vector["from"] == "client" else read_client
    with pytest.raises(RemoteProtocolError):
        wrong(bytes.fromhex(vector["hex"]))


@named("spelled")
def test_other_spelling_is_taken_for_what_it_means(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    found = again(vector["from"], data)
    assert found.hex() == vector["again"]
    assert exact(plain(found)) == exact(vector["json"])


@named("refused")
def test_what_must_be_refused_is(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if vector["from"] == "server":
        with pytest.raises(RemoteProtocolError) as caught:
            read_server(data)
        assert caught.value.code == vector["error"]
        return
    desk = desk_at(vector["state"])
    assert without_words(answer(desk, data)) == vector["answer"]
    assert desk.closed is not None
    assert desk.closed[0] == vector["close"]
    desk.talk.receive(data)
    assert len(desk.said) == 1, "nothing is heard after the end"


@named("denied")
def test_what_may_not_be_done_is_answered_and_the_connection_goes_on(vector: dict[str, Any]) -> None:
    desk = desk_at("open", vector["can"])
    before = desk.head
    assert without_words(answer(desk, bytes.fromhex(vector["hex"]))) == vector["answer"]
    assert desk.closed is None
    assert desk.head == before


# --- a whole exchange -------------------------------------------------------------------------------------


every_story = pytest.mark.parametrize("name", STORIES)


@every_story
def test_server_says_what_it_said_to_a_client_of_which_only_the_bytes_are_known(name: str) -> None:
    live = Live()
    said: list[str] = []
    for step in STEPS[name]:
        if step.elsewhere:
            found = read_client(bytes.fromhex(step.elsewhere))
            assert isinstance(found, Transact)
            live.commit_elsewhere(found)
        elif step.event == "cut":
            live.hang_up()
        elif step.side == "client":
            live.desk.talk.receive(step.data)
        said += [data.hex() for data in live.desk.said]
        live.desk.said.clear()
    assert said == [step.hex for step in STEPS[name] if step.side == "server"]
    assert live.desk.closed == (1000, "bye")


@every_story
def test_client_says_what_it_said_to_a_server_of_which_only_the_bytes_are_known(name: str) -> None:
    ann, peer = Ann(), Playback(STEPS[name])
    STORIES[name](ann, peer)
    assert peer.is_over


def told(name: str) -> list[list[str]]:
    ann = Ann()
    STORIES[name](ann, Playback(STEPS[name]))
    return summary(ann.told)


def test_client_that_comes_back_is_told_everything_as_one_step() -> None:
    assert [sorted(step) for step in told("exchange")] == [
        ["other Committed 2"],
        ["own 1 Conflict 2"],
        ["own 2 Committed 3"],
        [
            "own 3 Committed 4",
            "space/seats.booked is 111 as of 4",
            "space/seats.seat-12A is '' as of 5",
        ],
        ["own 4 Committed 6"],
        ["own 5 Committed 7"],
    ]


def test_client_hears_of_what_is_linked_and_not_of_what_it_let_go_of() -> None:
    assert told("exchange of links") == [
        ["space/todo.items:1 is ABSENT as of 0", "other Committed 2"],
        ["other Committed 3"],
        ["own 1 Committed 4"],
        ["own 2 Committed 5"],
        ["own 3 Refused"],
        ["other Committed 7"],
    ]


def test_commit_whose_answer_was_lost_is_sent_again_and_has_its_one_place() -> None:
    frames = [plain(step.data) for step in STEPS["exchange"] if step.side]
    sent = [each for each in frames if isinstance(each, dict) and each["t"] == "transact" and each["number"] == 3]
    assert len(sent) == 2
    assert sent[0] == sent[1]
    verdicts = [
        new["verdict"]
        for each in frames
        if isinstance(each, dict) and each["t"] == "news"
        for new in each["news"]
        if new.get("number") == 3
    ]
    assert verdicts == [{"type": "committed", "seq": 4}, {"type": "committed", "seq": 4}]
