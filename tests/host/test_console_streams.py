"""Streams that are wrapped are as they were, for all who use, replace or capture them."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from typing import Any

import pytest

from tests.app.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_function_that_redirects_keeps_what_it_redirects(desk: Desk) -> None:
    kept = io.StringIO()

    @desk.app.sink
    def show() -> None:
        with redirect_stdout(kept):
            print("kept")
        print("told")

    with desk.open():
        pass
    assert (kept.getvalue(), desk.texts) == ("kept\n", ["told"])


def test_run_within_a_redirection_is_heard_and_forwarded_there(desk: Desk) -> None:
    kept = io.StringIO()
    desk.sink()
    with desk.open():
        with redirect_stdout(kept):
            desk.x.value = 1
        desk.x.value = 2
    assert (kept.getvalue(), desk.texts) == ("1\n", ["0", "1", "2"])


def test_last_to_go_leaves_what_others_have_put_in_its_place(desk: Desk) -> None:
    before, mine = sys.stdout, io.StringIO()
    desk.sink()
    try:
        with desk.open():
            sys.stdout = mine
        assert sys.stdout is mine
    finally:
        sys.stdout = before


def test_what_is_put_back_too_late_lets_everything_through(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    try:
        space = desk.open()
        with redirect_stdout(io.StringIO()):
            space.close()
        assert sys.stdout is not before, "put back by the redirection"
        print("still there")
        desk.sink()
        with desk.open():
            pass
        assert sys.stdout is before, "and cleared away when there is an occasion"
    finally:
        sys.stdout = before
    assert capsys.readouterr().out == "still there\n0\n"
    assert desk.texts == ["0"]


class Loud:
    """A stream of somebody else's around another."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        self.inner.write(text.upper())
        return len(text)

    def flush(self) -> None:
        self.inner.flush()


def test_stream_of_others_around_ours_does_not_make_us_hear_twice(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.sink("x is ")
    before = sys.stdout
    try:
        with desk.open():
            sys.stdout = Loud(sys.stdout)  # type: ignore[assignment]
            desk.x.value = 1
    finally:
        sys.stdout = before
    assert desk.texts == ["x is 0", "x is 1"]
    assert capsys.readouterr().out == "x is 0\nX IS 1\n"


def test_capture_that_comes_and_goes_is_followed(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.answer = lambda _: ""
    desk.sink()
    with desk.open():
        with capsys.disabled():
            desk.x.value = 1
        desk.x.value = 2
    assert desk.texts == ["0", "1", "2"]


def test_stream_is_as_it_was_but_for_what_is_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    real = io.TextIOWrapper(raw, encoding="latin-1", errors="replace", write_through=True)
    monkeypatch.setattr(sys, "stdout", real)
    seen: list[object] = []

    @desk.app.sink
    def show() -> None:
        out = sys.stdout
        seen[:] = [out.encoding, out.errors, out.isatty(), out.buffer is real.buffer, out.writable(), out.closed]
        out.buffer.write(b"bytes ")
        print("text")
        with pytest.raises(TypeError, match="must be str"):
            out.write(b"bytes")  # type: ignore[arg-type]
        assert not hasattr(out, "colour")

    with desk.open():
        pass
    assert (seen, desk.errors) == (["latin-1", "replace", False, True, True, False], [])
    assert raw.getvalue() == b"bytes text\n"
    assert desk.texts == ["text"]


def test_process_without_streams_is_no_trouble(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    desk.sink()
    with desk.open():
        assert sys.stdout is None
    assert (desk.heard, desk.errors) == ([], [])


def test_stream_that_refuses_text_tells_the_function_as_ever(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", real)
    desk.app.sink(name="show")(lambda: print("ä"))
    with desk.open():
        pass
    assert [type(error.__cause__) for error in desk.errors] == [UnicodeEncodeError]
    real.detach()


def test_stream_that_refuses_the_rest_of_a_line_is_told_of(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", real)
    desk.app.sink(name="show")(lambda: print("ä", end=""))
    with desk.open():
        pass
    [error] = desk.errors
    assert "could not forward text: UnicodeEncodeError" in str(error)
    assert isinstance(error.__cause__, UnicodeEncodeError)
    real.detach()
