"""The contract with the page: frames and their codec, questions and deeds; what is not understood is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.errors import RemoteProtocolError
from headwater.studio import answers, page_frames
from headwater.studio.deeds import DEEDS
from headwater.studio.limits import FRAME_BYTES, VALUE_BYTES, WATCHES
from headwater.studio.questions import QUESTIONS
from tests.studio.locally import entered, local_page, studio_of
from tests.studio.pages import PageClient
from tests.studio.shop import ignore, make_shop

PAGE = Path(__file__).parents[2] / "docs/internals/studio.md"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[PageClient]:
    file = str(tmp_path / "shop.db")
    made = make_shop()
    with made.app.open(file, on_error=ignore):
        made.counted.value = 2
        with local_page(file) as tab:
            yield tab


def test_each_frame_survives_its_text() -> None:
    for frame in (
        page_frames.HelloFrame(code="x"),
        page_frames.AskFrame(n=1, q=QUESTIONS["overview"]()),  # type: ignore[arg-type]  # one of the union
        page_frames.WatchFrame(n=2, q=QUESTIONS["graph"](), mark="m"),  # type: ignore[arg-type]  # likewise
        page_frames.UnwatchFrame(n=2),
        page_frames.DoFrame(n=3, deed=DEEDS["fork"](name="trial")),  # type: ignore[arg-type, call-arg]  # likewise
        page_frames.OkFrame(n=2),
        page_frames.HideFrame(),
        page_frames.ShowFrame(),
    ):
        assert page_frames.read_page_frame(page_frames.frame_text(frame)) == frame


def test_the_page_of_the_contract_names_each_question_and_deed_with_its_arguments() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE))
    for tag, kind in {**QUESTIONS, **DEEDS}.items():
        named = set(re.findall(r"`(\w+)`", rows.get(tag, "")))
        own = {field.name for field in msgspec.structs.fields(kind)} - {"space", "branch"}
        assert named == own, tag


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"t":"nothing"}', '{"t":"ask","n":1}', '{"t":"ask","n":1,"q":{"type":"x"}}']
)
def test_what_is_not_understood_is_refused_by_the_codec(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        page_frames.read_page_frame(text)


def test_an_unknown_field_is_passed_over() -> None:
    frame = page_frames.read_page_frame('{"t":"ok","n":3,"later":true}')
    assert frame == page_frames.OkFrame(n=3)


def test_an_unknown_question_is_trouble_and_ends_the_connection(page: PageClient) -> None:
    page.send(t="ask", n=1, q={"type": "nothing"})
    trouble = page.frame()
    assert (trouble["t"], trouble["code"]) == ("trouble", "HW402")
    assert page.code() == 4400


def test_a_number_is_used_once(page: PageClient) -> None:
    page.watch("documents")
    page.send(t="watch", n=page.number, q={"type": "documents"})
    assert page.code() == 4400


def test_a_frame_that_is_too_large_ends_the_connection(page: PageClient) -> None:
    page.socket.send(json.dumps({"t": "hello", "code": "x" * FRAME_BYTES}))
    assert page.code() == 1009


def test_a_tab_watches_so_many_questions_and_no_more(page: PageClient) -> None:
    for _ in range(WATCHES):
        assert page.watch("documents", limit=1)["t"] == "answer"
    refused = page.watch("documents")
    assert refused["t"] == "trouble"
    assert str(WATCHES) in refused["message"]


def test_a_question_that_fails_leaves_the_others(page: PageClient) -> None:
    assert page.ask("document", address="")["t"] == "trouble"
    assert page.ask("documents")["documents"]


def test_a_large_value_is_cut_and_loaded_whole_on_demand(page: PageClient) -> None:
    text = json.dumps("x" * (3 * VALUE_BYTES))
    assert page.do("set", address="large", text=text, create=True)["seq"]
    value = page.ask("document", address="large")["value"]
    assert (value["cut"], value["size"]) == (True, len(text))
    assert len(value["text"]) == VALUE_BYTES
    assert page.ask("document", address="large", whole=True)["value"]["text"] == text
    listed = next(row for row in page.ask("documents")["documents"] if row["address"] == "large")
    assert listed["value"]["cut"]


def test_active_characters_of_documents_travel_as_text(page: PageClient) -> None:
    hostile = "</script><img src=x onerror=alert(1)> \u202e \u0000"
    page.do("set", address="hostile", text=json.dumps(hostile), create=True)
    found = page.ask("document", address="hostile")["value"]
    assert json.loads(found["text"]) == hostile


def test_a_link_works_once_and_a_session_goes_on(tmp_path: Path) -> None:
    file = str(tmp_path / "shop.db")
    with make_shop().app.open(file, on_error=ignore), studio_of(file) as server:
        code = server.link().partition("#c=")[2]
        from tests.studio.pages import page_of

        with page_of(server.address) as first:
            welcome = first.enter(code=code)
            assert welcome["t"] == "welcome"
        with page_of(server.address) as again:
            assert again.enter(code=code)["code"] == "HW403"
            assert again.code() == 4401
        with page_of(server.address, session=welcome["session"]) as back:
            assert back.welcome["session"] == welcome["session"]
        with entered(server) as other:
            assert other.welcome["session"] != welcome["session"]


def test_all_fields_of_a_record_are_sent(page: PageClient) -> None:
    for tag in ("overview", "graph", "functions", "kinds", "documents", "commits", "branches", "workflows", "handlers"):
        record = page.ask(tag)
        kind = QUESTIONS[tag].answer
        assert set(record) == set(kind.__struct_fields__), tag
        assert msgspec.convert(record, kind)
    assert answers.ValueText.__struct_fields__ == ("text", "size", "cut", "hidden")
