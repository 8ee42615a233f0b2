"""The page of numbers: that it is what Prometheus reads, that it is true, and who is shown which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.errors import AccessError
from headwater.server.metrics import BOUNDS_S, Histogram, MetricsText
from headwater.server.server import Server
from headwater.server.spaces import served_spaces as house_module
from headwater.values.address import doc_key
from headwater.values.tree import ABSENT
from tests.server.running import client, pages, served, settle_in, token_for, until, write

# --- a reader, as strict as the format ------------------------------------------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
ONE_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
KINDS = ("counter", "gauge", "histogram")

Sample = tuple[str, frozenset[tuple[str, str]]]


def read(text: str) -> dict[Sample, float]:
    """All samples. Raises AssertionError for what is not in the format, or not as it is meant."""
    assert text.endswith("\n")
    found: dict[Sample, float] = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    family = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert re.fullmatch(NAME, family)
            assert family not in helped, f"{family} comes twice"
            helped.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert (name, kind in KINDS) == (family, True)
            kinds[name] = kind
        else:
            read_one(line, family, kinds[family], found)
    check_histograms(found, kinds)
    return found


def read_one(line: str, family: str, kind: str, found: dict[Sample, float]) -> None:
    match = SAMPLE.fullmatch(line)
    assert match is not None, f"{line!r} is not in the format"
    name, labels, value = match.groups()
    ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
    assert name in [family + end for end in ends], f"{name} is among those of {family}"
    if kind == "counter":
        assert family.endswith("_total")
    key = name, frozenset((key, unescape(text)) for key, text in ONE_LABEL.findall(labels or ""))
    assert key not in found, f"{line!r} comes twice"
    found[key] = float(value)


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)


def check_histograms(found: dict[Sample, float], kinds: dict[str, str]) -> None:
    for name in [name for name, kind in kinds.items() if kind == "histogram"]:
        buckets = [
            (float(dict(labels)["le"]), count) for (full, labels), count in found.items() if full == f"{name}_bucket"
        ]
        assert buckets == sorted(buckets), "bounds and counts go up together"
        assert buckets[-1] == (float("inf"), found[f"{name}_count", frozenset()])


def number(samples: dict[Sample, float], name: str, **labels: str) -> float:
    return samples[f"headwater_{name}", frozenset(labels.items())]


# --- the format -----------------------------------------------------------------------------------------------


def test_whatever_a_label_holds_is_read_as_it_was() -> None:
    page = MetricsText()
    names = ["plain", 'quo"ted', "back\\slash", "two\nlines", "ünïcode", "a,b=c{d}", "\\n"]
    page.family("odd", "gauge", "Words with a \\ and a\nnew line.", [({"space": name}, 1) for name in names])
    found = read(page.text())
    assert {dict(labels)["space"] for _, labels in found} == set(names)


def test_the_reader_refuses_what_is_not_in_the_format() -> None:
    for bad in ('a{x="1} 1\n', "a 1", "# HELP a b\n# TYPE a gauge\na{} 1\n", "# HELP a b\n# TYPE a counter\na 1\n"):
        with pytest.raises((AssertionError, KeyError)):
            read(bad)


def test_a_histogram_counts_each_once_and_bounds_belong_to_the_lower_side() -> None:
    counted = Histogram()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] * 1.01, BOUNDS_S[-1], BOUNDS_S[-1] * 2):
        counted.observe(seconds)
    page = MetricsText()
    page.histogram("took", "How long it took.", counted)
    found = read(page.text())
    assert number(found, "took_bucket", le="0.001") == 2
    assert number(found, "took_bucket", le="10") == 4
    assert number(found, "took_count") == counted.count == 5


# --- a server's -----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def numbers(server: Server, token: str | None = None) -> dict[Sample, float]:
    with pages(server, token) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return read(answer.text)


def test_an_idle_server_has_nothing_to_count(server: Server) -> None:
    found = numbers(server)
    assert number(found, "connections") == number(found, "commits_total") == number(found, "open_spaces") == 0
    assert found["process_cpu_seconds_total", frozenset()] > 0
    if Path("/proc/self/statm").exists():
        assert found["process_resident_memory_bytes", frozenset()] > 1_000_000
        assert found["process_open_fds", frozenset()] > 3


def test_what_clients_do_is_counted(server: Server) -> None:
    with client(server.url) as ann, client(server.url) as bob, client(server.url, "other"):
        assert bob.read(doc_key("a")) is ABSENT
        for value in range(5):
            write(ann, "a", value)
        found = numbers(server)
        assert number(found, "connections") == number(found, "sessions") == number(found, "upgrades_total") == 3
        assert number(found, "open_spaces") == 2
        assert number(found, "commits_total") == number(found, "decide_seconds_count") == 5
        assert number(found, "groups_total") == 5
        assert number(found, "pending_commits") == 0
        assert number(found, "watches") == 2
        # Each is told to who wrote it, and to who watches it.
        assert number(found, "deliveries_total") == 10
        assert number(found, "frames_total", direction="in") >= 3 * 2 + 1 + 5
        assert number(found, "frames_total", direction="out") >= 3 * 2 + 1 + 10
        for way in ("in", "out"):
            assert number(found, "bytes_total", direction=way) > 0
    until(lambda: number(numbers(server), "connections") == 0, "they are gone")
    found = numbers(server)
    assert number(found, "sessions") == number(found, "watches") == 0


def test_no_count_goes_back_when_a_space_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house_module, "EMPTY_S", 0.0)
    assert server.spaces is not None
    with client(server.url) as ann:
        for value in range(3):
            write(ann, "a", value)
        before = numbers(server)
    until(lambda: number(numbers(server), "sessions") == 0, "it has left")
    server.spaces._loop.call_soon_threadsafe(server.spaces._close_empty)
    until(lambda: number(numbers(server), "open_spaces") == 0, "the space is closed")
    after = numbers(server)
    for name in ("commits_total", "groups_total", "deliveries_total", "decide_seconds_count"):
        assert number(after, name) == number(before, name) == 3


def test_refused_connections_are_counted_by_reason(server: Server) -> None:
    with pytest.raises(AccessError), client(server.url, token="nonsense"):  # noqa: S106  # of a test
        pass
    found = numbers(server)
    assert number(found, "refused_upgrades_total", reason="token") == 1
    assert number(found, "refused_upgrades_total", reason="host") == 0


# --- who is shown what ----------------------------------------------------------------------------------------


def test_names_of_spaces_are_for_those_who_own_all_of_them(server: Server) -> None:
    everything, home = token_for(server, "*", "own"), token_for(server, "home", "own")
    reader = token_for(server, "*", "read")
    with client(server.url, "secret-plans") as ann:
        write(ann, "a", 1)
        for token in (None, home, reader):
            with pages(server, token) as asking:
                text = asking.get("/metrics").text
            assert "secret-plans" not in text
            assert number(read(text), "sessions") == 1
        found = numbers(server, everything)
        assert number(found, "space_sessions", space="secret-plans") == 1
        assert number(found, "space_head", space="secret-plans") == 1


def test_a_wrong_token_is_wrong_on_this_machine_too(server: Server) -> None:
    with pages(server, "nonsense") as asking:
        assert asking.get("/metrics").status_code == 401


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_whom_a_proxy_asks_for_needs_a_token(header: str, server: Server) -> None:
    with pages(server, None, **{header: "203.0.113.9"}) as asking:
        assert asking.get("/metrics").status_code == 401
    with pages(server, token_for(server, "home", "write"), **{header: "203.0.113.9"}) as asking:
        assert asking.get("/metrics").status_code == 403
    with pages(server, token_for(server, "home", "own"), **{header: "203.0.113.9"}) as asking:
        assert asking.get("/metrics").status_code == 200


def test_a_server_that_goes_by_another_name_asks_this_machine_for_a_token_too(store: Path) -> None:
    """A proxy that adds nothing comes from here, for whoever."""
    with served(store, hosts=("spaces.example",)) as server, pages(server) as asking:
        assert asking.get("/metrics").status_code == 401
