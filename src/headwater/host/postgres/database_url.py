"""URLs of databases, as libpq reads them, with one parameter of Headwater: the schema of its tables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from headwater.errors import UsageError

SCHEMES: Final = ("postgresql://", "postgres://")
DEFAULT_SCHEMA: Final = "headwater"
_SCHEMA: Final = "headwater_schema"
_SPACE: Final = "space"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")
_CHOOSING: Final = frozenset({"host", "hostaddr", "port", "dbname", "user", "service"})
"""The parameters of libpq that choose a database, or a user of it."""


def is_database(url: str) -> bool:
    """Whether a URL names a database."""
    return url.startswith(SCHEMES)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A database, and the schema and the space that the URL names."""

    libpq: str = field(repr=False)
    """For libpq: may have a password."""
    shown: str
    """For people: never has one."""
    schema: str
    space: str | None

    key: str
    """The same for the same database, schema and user, as far as the URL and the environment tell. No password."""

    def missing(self, defaults: Mapping[str, object]) -> dict[str, Any]:
        """Those parameters that the URL does not have."""
        given = dict(parse_qsl(urlsplit(self.libpq).query))
        return {name: value for name, value in defaults.items() if name not in given}


def parse_database_url(url: str) -> DatabaseUrl:
    """Read a URL. Parameters that are not Headwater's are passed on to libpq unchanged."""
    parts = _split(url)
    own: dict[str, str] = {}
    passed: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in {_SCHEMA, _SPACE}:
            own[name] = value
        else:
            passed.append((name, value))
    schema = own.get(_SCHEMA, DEFAULT_SCHEMA)
    if not _NAME.fullmatch(schema):
        message = f"{_SCHEMA}={schema!r} is not the name of a schema: small letters, digits and _ are expected"
        raise UsageError(message, found=schema)
    user_info, at, hosts = parts.netloc.rpartition("@")
    name = user_info.partition(":")[0]
    known = [(each, value) for each, value in passed if each in _CHOOSING]
    shown = unquote(_joined(f"{name}{at}{hosts}", parts.path, known))
    given = {each for each, _ in passed} | _given(name, hosts, parts.path)
    chosen = _of_the_environment()
    rest = "".join(f"&{each}={chosen[each]}" for each in sorted(_CHOOSING - given))
    return DatabaseUrl(
        _joined(parts.netloc, parts.path, passed), shown, schema, own.get(_SPACE), f"{shown}#{schema}{rest}"
    )


def _of_the_environment() -> dict[str, str]:
    """What libpq reads where the URL does not have such a parameter."""
    return {
        "host": os.environ.get("PGHOST", ""),
        "hostaddr": os.environ.get("PGHOSTADDR", ""),
        "port": os.environ.get("PGPORT", ""),
        "dbname": os.environ.get("PGDATABASE", ""),
        "user": os.environ.get("PGUSER", ""),
        "service": os.environ.get("PGSERVICE", ""),
    }


def _given(user: str, hosts: str, path: str) -> set[str]:
    """The parameters that the parts of a URL before its question mark stand for."""
    found = {"user"} if user else set[str]()
    found |= {"dbname"} if path.strip("/") else set()
    for host in hosts.split(","):
        name = _HOST.fullmatch(host)
        found |= {"host"} if name and name[1] else set()
        found |= {"port"} if name and name[2] else set()
    return found


def _split(url: str) -> SplitResult:
    """The parts of a URL, if libpq finds the same. Else a part of a password could be taken for a host or a port."""
    authority = url.partition("://")[2].partition("/")[0]
    with suppress(ValueError):
        parts = urlsplit(url)
        user_info, _, hosts = parts.netloc.rpartition("@")
        is_cut = "#" in url or authority.count("@") > 1 or ("@" in authority) != ("@" in parts.netloc)
        if not is_cut and "@" not in user_info and all(map(_HOST.fullmatch, hosts.split(","))):
            return parts
    message = (
        "the URL of a database cannot be read: postgresql://USER:PASSWORD@HOST:PORT/DATABASE is expected; in the user "
        "and the password, write # as %23, / as %2F, : as %3A, ? as %3F, @ as %40, [ as %5B and ] as %5D"
    )
    raise UsageError(message)


def _joined(authority: str, path: str, query: list[tuple[str, str]]) -> str:
    """A URL for libpq, which needs the slashes also before an empty host."""
    text = f"postgresql://{authority}{path}"
    return f"{text}?{urlencode(query, quote_via=quote)}" if query else text


def hide_password(text: str, url: DatabaseUrl) -> str:
    """A message of libpq without the password of the URL, in case that it quotes it."""
    user_info = urlsplit(url.libpq).netloc.rpartition("@")[0]
    query = dict(parse_qsl(urlsplit(url.libpq).query))
    for secret in (user_info.partition(":")[2], query.get("password", "")):
        for form in {secret, unquote(secret)} - {""}:
            text = text.replace(form, "***")
    return text


_USER_INFO: Final = re.compile(r"\b(postgres(?:ql)?:/+[^\s:/?#@]*):\S*@")
_PARAMETER: Final = re.compile(r"\b(postgres(?:ql)?:/\S*[?&]password=)[^\s&]*")


def hide_passwords(text: str) -> str:
    """A message without the passwords of URLs of databases in it, also where such a URL was taken for a path."""
    return _PARAMETER.sub(r"\1***", _USER_INFO.sub(r"\1@", text))
