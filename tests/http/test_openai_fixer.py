"""The fixer that asks a model: what it sends, what it takes for an answer, and that it never tells the key."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, UsageError
from headwater.http.openai_fixer import ANSWER_MAX, question, source_in
from tests.runtime.workflows.mill import SAFETY_S, Mill, Note

KEY = "sk-very-secret-0123456789"
CODE = "class Take(hw.Consumer):\n    def prepare(self, pending):\n        return hw.Plan.idle()\n"

BROKEN = hw.Broken(
    workflow="mill.notes",
    handler="Take",
    run=1,
    phase="preparing",
    error="ZeroDivisionError: division by zero",
    details="Traceback (most recent call last):\n  File ...\nZeroDivisionError: division by zero",
    source="class Take(hw.Consumer):\n    ...\n",
    attempt=1,
)


def answer(content: Any, **choice: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}]}).encode()


def block(code: str = CODE, kind: str = "python") -> str:
    return f"Here it is:\n\n```{kind}\n{code}```\n\nThe division is guarded."


class Endpoint:
    """A server that answers as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.body = answer(block())
        self.more: dict[str, str] = {}
        self.act: Callable[[BaseHTTPRequestHandler], None] | None = None
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.paths.append(self.path)
                endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                endpoint.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                if endpoint.act is not None:
                    endpoint.act(self)
                    return
                self.send_response(endpoint.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(endpoint.body)))
                for name, value in endpoint.more.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(endpoint.body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def fixer(self, **options: Any) -> hw.OpenAIFixer:
        return hw.OpenAIFixer(**{"url": self.url, "model": "some-model", "key": KEY, **options})

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(SAFETY_S)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    made = Endpoint()
    yield made
    made.close()


# --- what is sent ---------------------------------------------------------------------------------------------


def test_the_model_is_sent_the_source_the_error_and_the_rules(endpoint: Endpoint) -> None:
    assert endpoint.fixer(rules="Use no regular expressions.")(BROKEN) == CODE
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    [asked] = endpoint.asked
    assert asked["model"] == "some-model"
    system, user = asked["messages"]
    assert system["role"] == "system"
    for rule in ("may not change topics, ids of events, schedules", "permissions", "exactly one fenced block"):
        assert rule in system["content"]
    assert system["content"].endswith("Use no regular expressions.")
    assert user["role"] == "user"
    for part in (BROKEN.source, BROKEN.error, BROKEN.details, "mill.notes", "Take", "preparing"):
        assert part.rstrip() in user["content"]
    assert KEY not in json.dumps(asked)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("", "/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/deployments/x?api-version=2", "/deployments/x/chat/completions?api-version=2"),
    ],
)
def test_an_address_is_completed(endpoint: Endpoint, url: str, path: str) -> None:
    endpoint.fixer(url=endpoint.url.removesuffix("/v1") + url)(BROKEN)
    assert endpoint.paths == [path]


def test_the_key_is_read_from_the_environment_when_it_is_needed(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    fixer, other = endpoint.fixer(key=None), endpoint.fixer(key=None, key_env="OTHER_KEY")
    with pytest.raises(UsageError, match="set OPENAI_API_KEY in the environment, or give it one with key="):
        fixer(BROKEN)
    monkeypatch.setenv("OPENAI_API_KEY", "one")
    monkeypatch.setenv("OTHER_KEY", "two")
    fixer(BROKEN)
    other(BROKEN)
    endpoint.fixer(key="")(BROKEN)
    assert [headers.get("authorization") for headers in endpoint.headers] == ["Bearer one", "Bearer two", None]


def test_what_is_long_is_sent_with_both_its_ends() -> None:
    long = "first\n" + "x\n" * 100_000 + "last"
    text = question(hw.Broken(**{**{n: getattr(BROKEN, n) for n in BROKEN.__struct_fields__}, "details": long}))
    assert "first\n" in text
    assert "\nlast\n" in text
    assert len(text) < 110_000


def test_a_fence_in_the_source_does_not_end_the_fence_around_it() -> None:
    source = 'class Take:\n    """\n    ```\n    """\n'
    text = question(hw.Broken(**{**{n: getattr(BROKEN, n) for n in BROKEN.__struct_fields__}, "source": source}))
    assert f"````python\n{source.rstrip()}\n````" in text


# --- what is answered -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["python", "py", "", "Python", "python3"])
def test_the_one_block_is_the_repair(kind: str) -> None:
    assert source_in(block(kind=kind)) == CODE


@pytest.mark.parametrize(
    "content",
    [
        "CANNOT REPAIR: the topic is wrong.",
        "",
        None,
        "I cannot help with that.",
        "```bash\nrm -rf /\n",
        [],
        [{"type": "text", "text": "CANNOT REPAIR"}],
    ],
    ids=range(7),
)
def test_a_model_that_declines_has_no_repair(endpoint: Endpoint, content: Any) -> None:
    endpoint.body = answer(content)
    assert endpoint.fixer()(BROKEN) is None


def test_a_refusal_is_none(endpoint: Endpoint) -> None:
    endpoint.body = json.dumps({"choices": [{"message": {"content": block(), "refusal": "no"}}]}).encode()
    assert endpoint.fixer()(BROKEN) is None


def test_an_answer_in_parts_is_one_answer(endpoint: Endpoint) -> None:
    text = block()
    parts = [{"type": "text", "text": text[:20]}, {"type": "image"}, {"type": "text", "text": text[20:]}]
    endpoint.body = answer(parts)
    assert endpoint.fixer()(BROKEN) == CODE


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (500, b"boom", "answered 500: boom"),
        (
            401,
            json.dumps({"error": {"message": f"Incorrect API key: {KEY}"}}).encode(),
            r"answered 401: .* key: \*\*\*",
        ),
        (429, b'{"error": {"message": "slow\\n  down"}}', "answered 429: slow down"),
        (404, b"", "answered 404: nothing"),
        (302, b"", "answered 302"),
        (204, b"", "answered 204"),
        (200, b"", "has answered no JSON: nothing"),
        (200, b"<html>hello</html>", "has answered no JSON: <html>hello</html>"),
        (200, b"\xff\xfe", "has answered no JSON"),
        (200, b"[]", r"without a choice of text: \[\]"),
        (200, b"{}", r"without a choice of text: \{\}"),
        (200, b"null", "without a choice of text"),
        (200, b'{"choices": []}', "without a choice of text"),
        (200, b'{"choices": {}}', "without a choice of text"),
        (200, b'{"choices": [3]}', "without a choice of text"),
        (200, b'{"choices": [{"message": null}]}', "without a choice of text"),
        (200, b'{"choices": [{"text": "old style"}]}', "without a choice of text"),
        (200, answer(3), "without a choice of text"),
        (200, answer([{"type": "text"}]), "without a choice of text"),
        (200, answer(block(), finish_reason="length"), "was cut off before its end"),
        (200, answer(block() + block()), "has answered with 2 blocks of code; one is expected"),
        (200, answer("```python\nclass Take:"), "ends in the middle of a block of code"),
        (200, answer(block(f"key = '{KEY}'\n")), "holds the key that it was asked with"),
        (200, b" " * (ANSWER_MAX + 10), f"more than {ANSWER_MAX} bytes"),
    ],
    ids=range(24),
)
def test_what_is_no_answer_is_told(endpoint: Endpoint, status: int, body: bytes, told: str) -> None:
    endpoint.status, endpoint.body = status, body
    with pytest.raises(hw.HeadwaterError, match=told) as raised:
        endpoint.fixer()(BROKEN)
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is None


def test_nobody_is_sent_on_with_the_key(endpoint: Endpoint) -> None:
    other = Endpoint()
    try:
        endpoint.status, endpoint.more = 307, {"Location": f"{other.url}/chat/completions"}
        with pytest.raises(hw.TransientError, match="answered 307"):
            endpoint.fixer()(BROKEN)
        assert other.asked == []
    finally:
        other.close()


def test_who_does_not_answer_is_given_up(endpoint: Endpoint) -> None:
    go = threading.Event()
    endpoint.act = lambda _: void(go.wait(SAFETY_S))
    with pytest.raises(hw.TransientError, match=r"127.0.0.1:\d+ has not answered within 0.05 s"):
        endpoint.fixer(timeout="50ms")(BROKEN)
    go.set()


def test_who_answers_one_letter_at_a_time_is_given_up(endpoint: Endpoint) -> None:
    stop = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while not stop.wait(0.01):
            try:
                request.wfile.write(b" ")
            except OSError:
                return

    endpoint.act = drip
    try:
        with pytest.raises(hw.TransientError, match=r"has not answered within 0.2 s"):
            endpoint.fixer(timeout="200ms")(BROKEN)
    finally:
        stop.set()


def test_who_hangs_up_is_told(endpoint: Endpoint) -> None:
    endpoint.act = lambda request: request.connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(hw.TransientError, match=r"could not be asked: \w+Error: "):
        endpoint.fixer()(BROKEN)


def test_who_is_not_there_is_told() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        fixer = hw.OpenAIFixer(url=url, model="m", key=KEY)
        with pytest.raises(hw.TransientError, match=r"could not be asked: ConnectError"):
            fixer(BROKEN)


def void(_: object) -> None:
    pass


# --- how it is declared ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": ""}, r"url=''\): text is expected"),
        ({"url": 3}, "text is expected"),
        ({"url": "api.openai.com"}, "an address is expected, such as"),
        ({"url": "file:///etc/passwd"}, "an address is expected"),
        ({"url": "https:///v1"}, "an address is expected"),
        ({"model": None}, "text is expected"),
        ({"key_env": ""}, "text is expected"),
        ({"timeout": "soon"}, "is no duration"),
        ({"timeout": 0}, "leaves no time at all"),
    ],
    ids=range(9),
)
def test_a_bad_argument_is_named(options: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"url": "https://api.openai.com/v1", "model": "m", **options}
    with pytest.raises(DeclarationError, match=told):
        hw.OpenAIFixer(**given)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(DeclarationError, match="it holds a name or password") as raised:
        hw.OpenAIFixer(url=f"https://ann:{KEY}@example.com/v1", model="m")
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX-Evil: 1", f"{KEY}é", 3])
def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="what key holds is no key: printable ASCII") as raised:
        hw.OpenAIFixer(url="http://localhost", model="m", key=key)
    assert KEY not in str(raised.value)
    if isinstance(key, str):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(UsageError, match="what OPENAI_API_KEY holds is no key"):
            hw.OpenAIFixer(url="http://localhost", model="m")(BROKEN)


def test_the_key_is_never_shown(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fixer = endpoint.fixer()
    assert KEY not in repr(fixer)
    endpoint.status, endpoint.body = 500, f"you sent {KEY}".encode()
    mill = failing(fixer)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert "answered 500: you sent ***" in mill.flow.status.sentence
    assert KEY not in caplog.text


# --- all of it ------------------------------------------------------------------------------------------------


def failing(fixer: hw.OpenAIFixer) -> Mill:
    mill = Mill()

    class Take(hw.Consumer[Note, list[str], int]):
        def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            return hw.Plan([e.id for e in pending][: 1 // 0], take=pending)

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
            mill.log.append(data)

    mill.flow.consumer(mill.notes)(Take)
    mill.flow.fixer(fixer)
    return mill


def test_a_model_repairs_a_handler(endpoint: Endpoint) -> None:
    mill = failing(endpoint.fixer())

    def repair(request: BaseHTTPRequestHandler) -> None:
        shown = endpoint.asked[-1]["messages"][1]["content"]
        source = source_in(shown.partition("Source of the handler:")[2])
        assert source is not None
        body = answer(block(source.replace("[: 1 // 0]", "")))
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    endpoint.act = repair
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == [["a"]]
        assert mill.statuses == ["failed:logic", "committed"]


def test_a_model_that_has_no_repair_leaves_it_to_a_person(endpoint: Endpoint) -> None:
    endpoint.body = answer("CANNOT REPAIR: ask a person.")
    mill = failing(endpoint.fixer())
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert "The fixer gave up." in mill.flow.status.sentence
