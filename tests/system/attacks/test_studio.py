"""Attacks on the Studio: pages of other places, links and secrets used again, frames that are none, slow viewers.

Each is tried at a Studio of one file on this machine, and at that of a server.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed

from headwater.access.access_control import AccessControl
from headwater.access.rights import Right
from headwater.errors import AccessError
from headwater.host.space_files import locate, open_space
from headwater.inspect.document_records import SetValue
from headwater.inspect.stored_inspector import StoredInspector
from headwater.machine import machine
from headwater.server import authenticator
from headwater.server.server_limits import GUESSES_BURST
from headwater.studio import feed, limits, logins, open_sockets, site
from headwater.studio.deeds import DEEDS
from headwater.studio.host import Login
from headwater.studio.local_host import FileHost
from headwater.studio.local_server import LocalStudioServer
from headwater.studio.page_frames import SUBPROTOCOL, HelloFrame
from headwater.studio.static_files import static_files
from tests.server.running import settle_in, until
from tests.studio.pages import PageClient, page_of, studio_served
from tests.studio.test_served import EXAMPLES
from tests.system.attacks.raw import ask, upgrade_lines

pytestmark = pytest.mark.slow

WEB = Path(site.__file__).parent / "web"


@dataclass(frozen=True)
class Studio:
    """One that is attacked, and how people come in."""

    port: int
    served: Any
    """The server, or the local one."""
    is_local: bool

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def right(self) -> dict[str, str]:
        """What is shown at the door."""
        if self.is_local:
            return {"code": self.served.link().partition("#c=")[2]}
        access: AccessControl = self.served.access
        return {"token": access.create(space="*", can=Right.OWN, any_actor=True)[0]}


def _made(folder: Path) -> Path:
    """The file of a space with one document."""
    with open_space(f"{folder}/", "home") as storage:
        StoredInspector(storage).do(SetValue(address="note", value=1, create=True, make_space=True))
    path = locate(f"{folder}/", "home").path
    assert path is not None
    return path


@contextmanager
def local(file: Path, *, read_only: bool = False) -> Iterator[Studio]:
    with LocalStudioServer(FileHost(str(file), read_only=read_only), port=0) as server:
        yield Studio(server.port, server, is_local=True)


@pytest.fixture(scope="module", params=["local", "served"])
def studio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One for all attacks of a kind: what they leave behind is not in each other's way."""
    folder = tmp_path_factory.mktemp("studio")
    (folder / "spaces").mkdir(mode=0o700)
    file = _made(folder / "spaces")
    with pytest.MonkeyPatch.context() as patch:
        settle_in(folder, patch)
        if request.param == "local":
            with local(file) as found:
                yield found
        else:
            with studio_served(folder / "spaces") as server:
                yield Studio(server.port, server, is_local=False)


def knock(studio: Studio, origin: str | None, host: str | None = None, protocol: str = SUBPROTOCOL) -> int:
    """With which status the socket answers an upgrade."""
    lines = upgrade_lines(studio.port, path="/studio/socket", origin=origin, host=host)
    lines = [f"Sec-WebSocket-Protocol: {protocol}" if "Protocol" in line else line for line in lines]
    return ask(studio.port, lines).status


def get(studio: Studio, path: str, method: str = "GET", host: str | None = None) -> Any:
    return ask(studio.port, [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{studio.port}'}"])


# --- pages of other places --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "",
        "null",
        "http://evil.test",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://127.0.0.1.evil.test:{port}",
        "http://127.0.0.1:{port}@evil.test",
        "http://localhost:{port}",
    ],
)
def test_a_page_of_another_place_has_no_socket_of_the_studio(studio: Studio, origin: str | None) -> None:
    assert knock(studio, origin and origin.format(port=studio.port)) == 403


def test_a_page_of_the_studio_has_a_socket(studio: Studio) -> None:
    assert knock(studio, studio.url) == 101
    assert knock(studio, studio.url, protocol="headwater.v1") == 400


@pytest.mark.parametrize("host", ["evil.test", "evil.test:{port}", "localhost.evil.test:{port}", "10.0.0.1:{port}"])
def test_a_name_that_leads_to_this_machine_leads_to_no_studio(studio: Studio, host: str) -> None:
    host = host.format(port=studio.port)
    files = [f"/studio/{static_files().version}/{path}" for path in static_files().by_path]
    for path in ["/studio", "/studio/", files[0], "/studio/download/x"]:
        assert get(studio, path, host=host).status == 421, path
    assert knock(studio, f"http://{host}", host=host) == 421


# --- links, tokens and secrets ----------------------------------------------------------------------------------


def test_a_link_works_once(tmp_path: Path) -> None:
    with local(_made(tmp_path)) as studio:
        right = studio.right()
        with page_of(studio.url, **right):
            pass
        with page_of(studio.url) as page:
            assert page.enter(**right)["code"] == "HW403"
            assert page.code() == 4401


def test_a_link_works_for_a_minute_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.LINK_S == 60.0
    with local(_made(tmp_path)) as studio:
        monkeypatch.setattr(logins, "LINK_S", -1.0)
        with page_of(studio.url) as page:
            assert page.enter(**studio.right())["code"] == "HW403"


def test_a_secret_of_a_tab_ends_after_its_time(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "SESSION_S", 1.0)
    with page_of(studio.url, **studio.right()) as page:
        secret = page.welcome["session"]
        assert page.code() == 4401, "while it is open"
    with page_of(studio.url) as page:
        assert page.enter(session=secret)["code"] == "HW403"


def test_what_opens_nothing_is_refused_in_the_same_words(studio: Studio) -> None:
    said = set()
    for shown in ({"session": "a"}, {"session": "\0"}, {"code": "a"}, {"code": "é" * 100}):
        with page_of(studio.url) as page:
            found = page.enter(**shown)
            said.add((found["t"], found["code"], found["message"]))
            assert page.code() == 4401
    assert len(said) == 1
    with page_of(studio.url) as page:
        assert page.enter(token="hw_" + "A" * 43)["code"] == "HW403"
        assert page.code() == 4401


def test_secrets_are_in_no_address_and_no_cookie(studio: Studio) -> None:
    with page_of(studio.url, **studio.right()) as page:
        secret = page.welcome["session"]
        for path in ("/studio/", f"/studio/?session={secret}", f"/studio/{static_files().version}/app.js"):
            answer = get(studio, path)
            assert "set-cookie" not in answer.headers
            assert secret.encode() not in answer.body


def test_guesses_of_a_token_are_limited_at_the_login_as_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    # However long the guesses take.
    monkeypatch.setattr(authenticator, "GUESSES_PER_S", 0.0)
    with studio_served(tmp_path / "spaces") as server:
        said = []
        for _ in range(GUESSES_BURST + 2):
            with page_of(server.url) as page:
                said.append(page.enter(token="hw_" + "A" * 43)["message"])
        assert "not known here" in said[0]
        assert "too many wrong tokens" in said[-1]


# --- what the page is made of -----------------------------------------------------------------------------------


def test_every_answer_has_the_policy_that_allows_no_other_script(studio: Studio) -> None:
    known = static_files()
    paths = ["/studio/", "/studio", "/studio/none", f"/studio/{known.version}/none.js"]
    for path in [*paths, *(f"/studio/{known.version}/{each}" for each in known.by_path)]:
        answer = get(studio, path)
        if answer.status == 404 and "content-security-policy" not in answer.headers:
            assert answer.headers["content-type"].startswith(("text/plain", "application/json")), path
            continue
        policy = {each.split()[0]: each.split()[1:] for each in answer.headers["content-security-policy"].split(";")}
        assert policy["default-src"] == ["'none'"], path
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == ["'self'"]
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
        assert policy["require-trusted-types-for"] == ["'script'"]
        assert policy["trusted-types"] == ["'none'"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_the_page_has_no_script_style_or_handler_within() -> None:
    for file in WEB.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert re.findall(r"<script(?![^>]*\bsrc=)", text) == [], file
        assert re.findall(r"<style|\bstyle=|\son\w+\s*=|javascript:", text) == [], file
        assert re.findall(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", text) == [], "nothing of another server"


def test_no_text_becomes_html_in_the_page() -> None:
    made = (
        r"\.(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|\beval\(|new Function\(|createContextualFragment"
    )
    for file in WEB.rglob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert re.findall(made, text) == [], file
        assert re.findall(r"""(?:from|import)\s*\(?\s*["'](?:https?:)?//""", text) == [], file


@pytest.mark.parametrize(
    "path",
    [
        "../../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/limits.py",
        "..\\..\\limits.py",
        "/etc/passwd",
        "//etc/passwd",
        "../limits.py",
        "views/../../limits.py",
        "app.js%00.html",
        "app.js/",
        ".",
        "",
        "index.html",
        "\xff",
    ],
)
def test_no_path_leads_out_of_the_files_of_the_page(studio: Studio, path: str) -> None:
    answer = get(studio, f"/studio/{static_files().version}/{path}")
    assert answer.status in (400, 404), path
    assert b"root:" not in answer.body
    assert b"Final" not in answer.body


def test_http_changes_nothing(studio: Studio) -> None:
    for path in ("/studio/", f"/studio/{static_files().version}/app.js", "/studio/download/x"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert get(studio, path, method).status == 405, (method, path)


# --- frames -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "null",
        "[]",
        '"hello"',
        '{"t":"none"}',
        '{"t":"ask","n":1,"q":{"type":"overview"}}',
        '{"t":"hello","token":1}',
        '{"t":"hello","session":null}',
        "[" * 100_000,
        '{"t":"hello","token":' + '{"a":' * 50_000,
        "\ud7ff" * 10,
    ],
)
def test_a_first_frame_that_is_no_hello_ends_the_connection(studio: Studio, frame: str) -> None:
    with page_of(studio.url) as page:
        page.socket.send(frame)
        assert page.frame()["code"] == "HW402"
        assert page.code() == 4400


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        '{"t":"none"}',
        '{"t":"hello"}',
        '{"t":"ask","n":1}',
        '{"t":"ask","n":1,"q":{"type":"none"}}',
        '{"t":"ask","n":1,"q":{"type":"documents","limit":"x"}}',
        '{"t":"ask","n":1e400,"q":{"type":"overview"}}',
        '{"t":"do","n":1,"deed":{"type":"set"}}',
        "[" * 100_000,
    ],
)
def test_a_frame_that_is_none_ends_the_connection(studio: Studio, frame: str) -> None:
    with page_of(studio.url, **studio.right()) as page:
        page.socket.send(frame)
        assert page.code() == 4400


@pytest.mark.parametrize("frame", ['{"t":"ask"}', '{"t":"hello","code":"none"}', '{"t":"hello","code":"right"}'])
def test_a_page_that_is_gone_before_its_answer_is_no_fault(tmp_path: Path, frame: str) -> None:
    class Gone:
        client = None

        async def receive(self) -> dict[str, str]:
            return {"type": "websocket.receive", "text": frame.replace("right", code)}

        async def send_text(self, _text: str) -> None:
            raise WebSocketDisconnect(1006)

        async def close(self, *_: object) -> None:
            raise WebSocketDisconnect(1006)

    with LocalStudioServer(FileHost(str(_made(tmp_path))), port=0) as server:
        code = server.link().partition("#c=")[2]

        async def talk() -> None:
            await server.site._talk(Gone(), open_sockets.HalfOpen(""))  # type: ignore[arg-type]  # what is used of it

        asyncio.run(talk())


def test_bytes_are_no_frame(studio: Studio) -> None:
    with page_of(studio.url, **studio.right()) as page:
        page.socket.send(b'{"t":"show"}')
        assert page.code() == 4400


def test_a_frame_that_is_too_large_ends_the_connection(studio: Studio) -> None:
    with page_of(studio.url, **studio.right()) as page:
        page.socket.send(json.dumps({"t": "ask", "n": 1, "q": {"type": "search", "text": "x" * limits.FRAME_BYTES}}))
        assert page.code() == 1009


def test_a_deed_is_done_once_for_its_number(studio: Studio) -> None:
    with page_of(studio.url, **studio.right()) as page:
        assert "seq" in page.do("set", address="note", text="2")
        page.send(t="do", n=page.number, deed={"type": "set", "address": "note", "text": "3"})
        assert page.code() == 4400
    with page_of(studio.url, **studio.right()) as page:
        assert page.ask("document", address="note")["value"]["text"] == "2"


def test_who_logs_in_again_and_again_ends_no_login_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "SESSIONS", 3)
    host = FileHost(str(_made(tmp_path)))
    monkeypatch.setattr(host, "admit", lambda token, _peer: Login(grant=token))
    door = logins.Logins(host)

    def enter(token: str) -> str:
        return door.enter(HelloFrame(token=token), "")[0]

    first = enter("one")
    secrets = [enter("another") for _ in range(9)]
    assert door.enter(HelloFrame(session=first), "")[0] == first
    assert door.enter(HelloFrame(session=secrets[-1]), "")[0] == secrets[-1]
    with pytest.raises(AccessError):
        door.enter(HelloFrame(session=secrets[0]), "")


def test_who_does_not_say_who_he_is_is_cut_off(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_sockets, "HELLO_S", 0.2)
    with page_of(studio.url) as page:
        assert page.code() == 4408


def test_tabs_and_watched_questions_are_no_more_than_a_bound(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    with page_of(studio.url, **studio.right()) as page:
        for _ in range(limits.WATCHES):
            assert page.watch("branches")["t"] == "answer"
        assert page.watch("branches")["t"] == "trouble"
        monkeypatch.setattr(open_sockets, "TABS", 1)
        right = studio.right()
        with page_of(studio.url) as other:
            other.send(t="hello", **right)
            assert other.code() == 4429
        monkeypatch.undo()
        with page_of(studio.url, **right) as other:
            assert other.welcome["t"] == "welcome", "a one-time code is not used up meanwhile"


def test_who_has_not_said_who_he_is_keeps_nobody_out(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    # None of these is cut off by the clock.
    monkeypatch.setattr(open_sockets, "HELLO_S", 600.0)
    with ExitStack() as held:
        silent = [held.enter_context(page_of(studio.url)) for _ in range(limits.TABS + 1)]
        with page_of(studio.url, **studio.right()) as page:
            assert page.watch("branches")["t"] == "answer"
        assert silent[0].code() == 4429, "the oldest has made room"


def test_one_token_cannot_hold_all_tabs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_sockets, "GRANT_TABS", 2)
    (tmp_path / "spaces").mkdir(mode=0o700)
    settle_in(tmp_path, monkeypatch)
    with studio_served(tmp_path / "spaces") as server, ExitStack() as held:
        studio = Studio(server.port, server, is_local=False)
        token, other = studio.right(), studio.right()
        for _ in range(2):
            held.enter_context(page_of(studio.url, **token))
        with page_of(studio.url) as page:
            page.send(t="hello", **token)
            assert page.code() == 4429
        held.enter_context(page_of(studio.url, **other))


def test_branches_without_end_have_no_threads_without_end(studio: Studio) -> None:
    def feeds() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name == "headwater-studio-feed"]

    before = len(feeds())
    with page_of(studio.url, **studio.right()) as page:
        page.watch("branches")
        for number in range(3 * limits.FEEDS):
            page.ask("documents", branch=f"asked{number}")
            page.watch("documents", branch=f"watched{number}")
            page.send(t="unwatch", n=page.number)
        assert page.ask("document", address="note")["exists"]
        # Those that were released end in a thread of their own.
        until(lambda: len(feeds()) - before <= limits.FEEDS + 1, "their threads have ended")


def test_questions_without_end_end_the_connection(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    # None is answered in time.
    monkeypatch.setattr(feed.SpaceFeed, "ask", lambda *_, **__: machine().future())
    with page_of(studio.url, **studio.right()) as page:
        # It may be closed before the last one.
        with suppress(ConnectionClosed):
            for number in range(1, 3000):
                page.send(t="ask", n=number, q={"type": "documents"})
        assert page.code() == 4429


# --- who may do less --------------------------------------------------------------------------------------------


def test_a_studio_for_reading_refuses_every_deed(tmp_path: Path) -> None:
    with local(_made(tmp_path), read_only=True) as studio, page_of(studio.url, **studio.right()) as page:
        assert page.welcome["read_only"]
        for tag in DEEDS:
            assert page.do(tag, **EXAMPLES[tag])["message"] == "this Studio is read-only", tag
            assert not page.intent(tag, **EXAMPLES[tag]).get("allowed"), tag
        assert page.ask("document", address="note")["seq"] == 1


# --- slow viewers -----------------------------------------------------------------------------------------------


def _deltas(page: PageClient, until: str) -> int:
    """How many deltas come until a value is shown, if none of them is painted for a while."""
    count = 1
    page.delta_unpainted()
    page.send(t="ok", n=1)
    while page.delta()["record"]["value"]["text"] != until:
        count += 1
    return count + 1


def test_who_does_not_paint_gets_one_delta_and_then_the_newest_state(studio: Studio) -> None:
    with page_of(studio.url, **studio.right()) as writer, page_of(studio.url, **studio.right()) as slow:
        slow.watch("document", address="note")
        for value in range(2, 60):
            assert "seq" in writer.do("set", address="note", text=str(value))
        assert _deltas(slow, "59") < 10, "and not one for each of 58 commits"


@pytest.mark.slow
def test_who_does_not_read_does_not_hold_up_others(studio: Studio) -> None:
    with page_of(studio.url, **studio.right()) as writer:
        assert "seq" in writer.do("set", address="large", text=json.dumps("x" * 500_000), create=True)
        with page_of(studio.url, **studio.right()) as slow:
            for number in range(1, 31):
                slow.send(t="ask", n=number, q={"type": "document", "address": "large", "whole": True})
            for value in range(5):
                assert "seq" in writer.do("set", address="note", text=str(value))
            assert writer.ask("document", address="note")["value"]["text"] == "4"
