"""`hw.http.Client`: policy, limits, and the verbs `json`, `text` and `bytes`."""

from __future__ import annotations

import ssl
from builtins import bytes as Bytes  # noqa: N812  # a client has a verb of that name
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, Never, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from headwater.declare.resources.resource import Explainable
from headwater.declare.resources.resource_options import parse_request_options
from headwater.declare.resources.resource_port import ResourcePort
from headwater.declare.resources.resource_state import State
from headwater.errors import DeclarationError, HttpRefusedError, UsageError
from headwater.http.http_headers import Given, check_headers, digest, merged
from headwater.http.http_limits import BYTES_MAX, FRESH_FOR_MS, TIMEOUT_MS
from headwater.http.http_request import HttpFetcher, HttpResponse
from headwater.http.http_resource import HttpResource, SecretHeaders
from headwater.http.http_retry import DEFAULT
from headwater.http.network import Network, SystemNetwork
from headwater.http.response_body import as_json, as_text
from headwater.http.url_policy import UrlPolicy
from headwater.http.url_target import read_url
from headwater.machine import machine
from headwater.scheduler.graph.node import Node
from headwater.values.causal import derive_id
from headwater.values.duration import Duration, to_ms
from headwater.values.value_limits import DOCUMENT_BYTES_MAX
from headwater.workflow.retry_policy import Retry

T = TypeVar("T")

FRESH_FOR: Final = f"{FRESH_FOR_MS}ms"
"""As a duration."""


class _Resources:
    """State of the process. Clients with the same settings share resources, so each document has one writer."""

    def __init__(self) -> None:
        self.shared: WeakValueDictionary[tuple[object, ...], HttpResource[Any]] = WeakValueDictionary()
        # Of each verb, by the options of its calls: one that is asked in another way is another resource.
        self.used: WeakKeyDictionary[Verb[Any], dict[tuple[object, ...], HttpResource[Any]]] = WeakKeyDictionary()


OF_CLIENTS: Final = frozenset({"allow", "private", "max_bytes", "timeout", "tls", "network"})
"""Options of a client, not of a call."""


class Verb(Explainable, Generic[T]):
    """A way to read responses: `client.json(url)` returns `hw.Pending`, `hw.Ready` or `hw.Failed`."""

    def __init__(self, client: Client, name: str, accept: str, read: Callable[[HttpResponse], object]) -> None:
        self.name = name
        self._client = client
        self._accept = accept
        self._read = read

    def __call__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        fresh_for: Duration | None = FRESH_FOR,
        retry: Retry | None = DEFAULT,
        **others: Never,
    ) -> State[T]:
        """`hw.Pending()`, `hw.Ready(value)` or `hw.Failed(error, last)`; a run that read it runs again when it changes.

        `fresh_for`: how long a response is current; None: for ever. `retry`: by default twice, for temporary errors.
        `headers` are for the server of the URL, and are kept in memory only.
        """
        if others:
            raise self._not_taken(others)
        return self._resource(fresh_for, retry)(*self._key(url, headers))

    def refresh(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        fresh_for: Duration | None = FRESH_FOR,
        retry: Retry | None = DEFAULT,
        **others: Never,
    ) -> None:
        """Request a URL again, even if the response is fresh. Give the options of the call that reads it.

        Args:
            url: The URL.
            headers: Headers for the server of the URL. They are held in memory only.
            fresh_for: How long a response is fresh; None: forever.
            retry: How often a failed request is repeated. By default twice, for temporary errors.

        Raises:
            UsageError: HW100. An option is one of the client, not of a call.
            NotOpen: HW001. There is no open space here.
        """
        if others:
            raise self._not_taken(others)
        self._resource(fresh_for, retry).refresh(*self._key(url, headers))

    def node_in(
        self,
        home: ResourcePort,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        fresh_for: Duration | None = FRESH_FOR,
        retry: Retry | None = DEFAULT,
    ) -> Node | None:
        """Its node in an open space, if it was called with these arguments."""
        return self._resource(fresh_for, retry).node_in(home, *self._key(url, headers))

    def why(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        fresh_for: Duration | None = FRESH_FOR,
        retry: Retry | None = DEFAULT,
    ) -> str:
        """Explain why a URL was requested, or was not. Give the options of the call that reads it.

        Args:
            url: The URL.
            headers: Headers for the server of the URL.
            fresh_for: How long a response is fresh; None: forever.
            retry: How often a failed request is repeated.

        Returns:
            The explanation, for people.
        """
        return self._resource(fresh_for, retry).why(*self._key(url, headers))

    def _not_taken(self, others: Mapping[str, object]) -> UsageError:
        name = next(iter(others))
        where = f"hw.http.{self.name}()"
        message = f"{where} takes no {name}=; url, headers=, fresh_for= and retry= are expected"
        if name in OF_CLIENTS:
            message = f"{where} takes no {name}=: that is said once, of a client: hw.http.Client({name}=...)"
        elif name == "params":
            message = f"{where} takes no params=: write them into the URL, with urllib.parse.urlencode"
        return UsageError(message, option=name)

    def _key(self, url: str, headers: Mapping[str, str] | None) -> tuple[str, SecretHeaders]:
        given = merged(self._client.given, check_headers(headers, f"hw.http.{self.name}(headers=...)"))
        try:
            # The canonical URL.
            return read_url(url).url, SecretHeaders.of(given)
        except HttpRefusedError:
            # A refusal is a result like others.
            return url, SecretHeaders.of(given)

    def _resource(self, fresh_for: Duration | None, retry: Retry | None) -> HttpResource[T]:
        where = f"hw.http.{self.name}()"
        asking = parse_request_options(where, f"http.{self.name}", fresh_for=fresh_for, retry=retry)
        tried = asking.retry
        said = [asking.fresh_ms, tried.tries, tried.backoff_ms, tried.max_ms, tried.jitter]
        named = [f"{kind.__module__}.{kind.__qualname__}" for kind in tried.on]
        resources = machine().state(_Resources)
        used = resources.used.setdefault(self, {})
        found = used.get((*said, *tried.on))
        if found is None:
            # Other options make another resource, with an age of its own.
            doc = str(derive_id(f"headwater.http.{self.name}", self._client.settings, said, named))
            made = HttpResource[T](self._client.fetcher, asking, doc, accept=self._accept, read=self._read)
            found = resources.shared.setdefault((doc, *self._client.means), made)
            used[*said, *tried.on] = found
        return found

    def __headwater_print__(self) -> Iterator[object]:
        """Its part in the fingerprint of a function that uses it."""
        yield self.name
        yield self._client

    def __repr__(self) -> str:
        return f"<{self.name} of {self._client!r}>"


class Client:
    """An HTTP client whose requests are resources, within a policy.

    Args:
        allow: The allowed hosts: `"api.example.com"`, `"*.example.com"`, `"example.com:8443"`. By default, all.
        private: Whether addresses of this machine and of local networks are allowed.
        max_bytes: The largest response, decoded.
        timeout: The longest time of one request, with all redirects.
        headers: Headers of every request.
        tls: A TLS context, for certificates that the system does not know.
        network: A network for tests.

    Raises:
        DeclarationError: HW110. An option is wrong.

    Example:
        ```python
        import headwater as hw

        api = hw.http.Client(allow=["api.example.com"], timeout="10s")
        app = hw.App("prices")


        @app.computed
        def price() -> object:
            return api.json("https://api.example.com/price")
        ```
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] | None = None,
        private: bool = False,
        max_bytes: int = BYTES_MAX,
        timeout: Duration = f"{TIMEOUT_MS}ms",
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        network: Network | None = None,
    ) -> None:
        bound: object = max_bytes
        if not isinstance(bound, int) or isinstance(bound, bool) or not 0 < bound <= DOCUMENT_BYTES_MAX:
            message = f"hw.http.Client(max_bytes={max_bytes!r}): a number from 1 to {DOCUMENT_BYTES_MAX:,} is expected"
            raise DeclarationError(f"{message}, which is what a document may hold")
        try:
            timeout_ms = to_ms(timeout, "hw.http.Client(timeout=...)")
            self.given: Given = check_headers(headers, "hw.http.Client(headers=...)")
        except UsageError as error:
            raise DeclarationError(error.message, **error.facts) from None
        if timeout_ms <= 0:
            raise DeclarationError(f"hw.http.Client(timeout={timeout!r}) leaves no time for an answer")
        policy = UrlPolicy(allow, private=private)
        listed = None if policy.rules is None else sorted(rule.written for rule in policy.rules)
        # Identifies the client across processes. Headers belong to the identity of each call.
        self.settings: tuple[object, ...] = (listed, bool(private), max_bytes, timeout_ms, tls is not None)
        self.means: tuple[object, ...] = (network, tls)
        self.fetcher = HttpFetcher(
            policy, network or SystemNetwork(), bytes_max=max_bytes, timeout_ms=timeout_ms, tls=tls
        )
        self._shown = "any host" if listed is None else ", ".join(listed) or "nothing"
        self.json: Verb[Any] = Verb(self, "json", "application/json", lambda got: as_json(got.body, got.shown))
        """Request a URL and read the response as JSON."""
        self.text: Verb[str] = Verb(self, "text", "text/*, */*;q=0.5", lambda got: as_text(got.body, got.charset))
        """Request a URL and read the response as text."""
        self.bytes: Verb[Bytes] = Verb(self, "bytes", "*/*", lambda got: got.body)
        """Request a URL and read the response as bytes."""

    def __headwater_print__(self) -> Iterator[object]:
        """Its part in the fingerprint of a function that uses it: the same in every process."""
        yield self.settings
        yield digest(self.given)

    def __repr__(self) -> str:
        # Never the headers.
        return f"<hw.http.Client for {self._shown}>"
