"""A refusal has the code of its error, and is raised as the class of that, here and at a client of a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import headwater as hw
from headwater.cells.rejection import refusal, rejection
from headwater.errors import (
    EventFailedError,
    HeadwaterError,
    InvariantError,
    LimitError,
    NotFoundError,
    PreconditionError,
    RejectedError,
    TransitionError,
)
from headwater.store.commit import Absent, Refused
from headwater.sync.frames import Judged, News, encode_frame, read_server
from headwater.values.error_codes import class_of
from headwater.values.ids import DocKey, LocalSeq, Seq
from tests.server.running import served, settle_in

DOC = DocKey("space/a")


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (Refused("no", DOC, Absent(DOC), "HW212"), PreconditionError),
        (Refused("no", DOC, code="HW102"), LimitError),
        (Refused("no", code="HW106"), NotFoundError),
        (Refused("no", code="HW507"), TransitionError),
        # Of programs that send no code.
        (Refused("no", DOC, Absent(DOC)), PreconditionError),
        (Refused("no", DOC), RejectedError),
        # Of a version that knows more.
        (Refused("no", DOC, code="HW299"), RejectedError),
    ],
)
def test_refusal_is_raised_as_the_class_that_its_code_names(refused: Refused, kind: type[HeadwaterError]) -> None:
    error = rejection(refused, None, "shop")
    assert type(error) is kind
    assert error.message.startswith("a transaction in space 'shop' was refused: no")
    assert error.facts["doc"] == refused.doc


def test_unknown_code_is_shown() -> None:
    error = refusal(Refused("too many legs", code="HW299"))
    assert (str(error), error.facts["code"]) == ("HW210: too many legs (HW299)", "HW299")


def test_code_names_its_own_class_only() -> None:
    assert (class_of("HW210"), class_of("HW901"), class_of(""), class_of("HW000")) == (
        RejectedError,
        InvariantError,
        None,
        None,
    )


def test_code_is_the_last_field_and_may_be_missing() -> None:
    old = {"t": "v", "number": 1, "verdict": {"type": "refused", "reason": "no", "doc": None, "unmet": None}}
    frame = read_server(msgspec.msgpack.encode({"t": "news", "seq": 1, "news": [old]}))
    assert frame == News(Seq(1), (Judged(LocalSeq(1), Refused("no")),))
    assert read_server(encode_frame(frame)) == frame
    assert Refused.__struct_fields__[-1] == "code"


@pytest.fixture(params=["file", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    settle_in(tmp_path, monkeypatch)
    if request.param == "file":
        yield str(tmp_path / "large.db")
        return
    with served(tmp_path / "data") as server:
        yield f"{server.url}/large"


def test_document_beyond_the_limit_is_a_limit_error_wherever_the_space_is(url: str) -> None:
    app = hw.App("large")
    listed = app.cell("listed", list[str]())

    @app.handler
    def add(size: int) -> None:
        listed.append("x" * size)

    with app.open(url) as space:
        for _ in range(16):
            # Each fits, and only the store knows the size of the whole.
            listed.append("x" * (2**20 - 100))
        space.sync()
        with space.transaction():
            listed.append("x" * 2**20)
        with pytest.raises(LimitError, match=r"would be .* bytes"):
            space.sync()
        ticket = add.send(2**20)
        with pytest.raises(EventFailedError) as failed:
            ticket.result()
        assert type(failed.value.__cause__) is LimitError
        assert len(listed.value) == 16
