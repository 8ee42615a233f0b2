"""Webhooks: how a service that is not a Headwater program posts to a topic.

A service defines where the id of an event is, how the body is encoded, and how a post is signed. A `Webhook` describes
that for one topic; the ingress decodes, verifies and identifies posts by it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from headwater.errors import DeclarationError, UsageError

Secret: TypeAlias = str | bytes | Callable[[], str | bytes]
"""A shared secret, or a function that returns it, such as from the environment instead of the source."""

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"

TOLERANCE_S: Final = 300
"""Seconds between the time in a signature and ours: the limit that Stripe, Slack and Standard Webhooks recommend."""

FORM_FIELDS_MAX: Final = 1000
"""Fields of one form: no service sends more, and each one costs an object."""

SIGNATURES_MAX: Final = 16
"""Signatures of one post that are compared. A service sends two while its secret is exchanged."""

_HEADER_MAX: Final = 200
"""Characters of a header's name."""


class WebhookRefusal(Exception):  # noqa: N818  # an answer to the sender, with a status of HTTP
    """A post that does not fit its webhook."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


# --- signatures -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BodySignature:
    """An HMAC of the body in one header, as GitHub, Shopify and most others send it."""

    header: str
    digest: str
    encoding: Literal["hex", "base64"]
    prefix: str

    def check(self, headers: Mapping[str, str], body: bytes, secrets: Sequence[bytes], now_s: float) -> None:  # noqa: ARG002
        """Raises WebhookRefusal unless one of the secrets made the signature of this body."""
        given = _header(headers, self.header)
        if not given.startswith(self.prefix):
            raise WebhookRefusal(401, f"the signature in {self.header} does not begin with {self.prefix!r}")
        found = _decoded(given[len(self.prefix) :], self.encoding)
        _compare([found], [hmac.digest(secret, body, self.digest) for secret in secrets], self.header)


@dataclass(frozen=True)
class StripeSignature:
    """`Stripe-Signature: t=1492774577,v1=5257a8...`: an HMAC of the time, a dot and the body."""

    header: str = "Stripe-Signature"

    def check(self, headers: Mapping[str, str], body: bytes, secrets: Sequence[bytes], now_s: float) -> None:
        """Raises WebhookRefusal unless one of the secrets made one of the signatures, a short while ago."""
        parts = [part.strip().partition("=") for part in _header(headers, self.header).split(",")]
        times = [value for name, _, value in parts if name == "t"]
        found = [_decoded(value, "hex") for name, _, value in parts if name == "v1"]
        if len(times) != 1 or not found:
            raise WebhookRefusal(401, f"{self.header} has no time `t=` or no signature `v1=`")
        _check_time(times[0], now_s, self.header)
        signed = times[0].encode() + b"." + body
        _compare(found, [hmac.digest(secret, signed, "sha256") for secret in secrets], self.header)


@dataclass(frozen=True)
class StandardSignature:
    """Standard Webhooks: `webhook-signature: v1,BASE64 v1,BASE64` over the id, the time and the body."""

    def check(self, headers: Mapping[str, str], body: bytes, secrets: Sequence[bytes], now_s: float) -> None:
        """Raises WebhookRefusal unless one of the secrets made one of the signatures, a short while ago."""
        name, time = _header(headers, "webhook-id"), _header(headers, "webhook-timestamp")
        given = [part.partition(",") for part in _header(headers, "webhook-signature").split(" ")]
        found = [_decoded(value, "base64") for version, _, value in given if version == "v1"]
        if not found:
            raise WebhookRefusal(401, "webhook-signature has no signature of version v1")
        _check_time(time, now_s, "webhook-timestamp")
        signed = f"{name}.{time}.".encode() + body
        expected = [hmac.digest(secret, signed, "sha256") for secret in secrets]
        _compare(found, expected, "webhook-signature")


Signature: TypeAlias = BodySignature | StripeSignature | StandardSignature


def _header(headers: Mapping[str, str], name: str) -> str:
    given = headers.get(name.lower(), "").strip()
    if not given:
        raise WebhookRefusal(401, f"the header {name} is missing: this topic takes signed posts only")
    return given


def _decoded(text: str, encoding: Literal["hex", "base64"]) -> bytes:
    """A signature as bytes; a malformed one is empty, which no secret makes."""
    try:
        return bytes.fromhex(text) if encoding == "hex" else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""


def _check_time(text: str, now_s: float, header: str) -> None:
    if not (text.isascii() and text.isdigit() and len(text) < 20):  # noqa: PLR2004  # of a number of 64 bits
        raise WebhookRefusal(401, f"the time {text[:30]!r} in {header} is no number of seconds")
    if abs(int(text) - now_s) > TOLERANCE_S:
        raise WebhookRefusal(401, f"the time in {header} differs by more than {TOLERANCE_S} s from the time here")


def _compare(found: Sequence[bytes], expected: Sequence[bytes], header: str) -> None:
    # Every pair is compared, in constant time each: neither the position nor the length of a match can be measured.
    matches = [hmac.compare_digest(one, other) for one in found[:SIGNATURES_MAX] for other in expected]
    if not any(matches):
        raise WebhookRefusal(401, f"the signature in {header} does not match the body and the secret of this topic")


def _standard_key(secret: bytes) -> bytes:
    """Standard Webhooks write a secret as `whsec_` and base64."""
    if not secret.startswith(b"whsec_"):
        return secret
    try:
        key = base64.b64decode(secret.removeprefix(b"whsec_"), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise UsageError("a webhook secret that begins with whsec_ is expected to go on in base64, and not to be empty")
    return key


# --- the description ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """How the posts of a service are read: their ids, their encoding and their signatures.

    Signed posts need no bearer token.

    Args:
        id_header: The header that has the id of an event, such as `X-Request-Id`.
        id_path: The path of the id in the body, such as `data/id`. Give this or `id_header`.
        secret: The secret that posts are signed with, or several while it is replaced.
        signature_header: The header that has the signature.
        signature_prefix: The text before the signature in that header.
        digest: The hash of the HMAC.
        encoding: The encoding of the signature: `"hex"` or `"base64"`.
        forms: Whether forms are read besides JSON. Each field is a text; a repeated field is a list of texts.
        form_json: The field of a form that has the payload as JSON.
        headers: Headers that are added to the payload as fields: `X-GitHub-Event` as `x_github_event`.
        scheme: A signature scheme of its own, instead of an HMAC of the body.

    Raises:
        DeclarationError: HW110. The place of the id is missing, or the options of the signature do not fit.

    Example:
        ```python
        import headwater as hw

        hook = hw.Webhook(id_header="X-Request-Id", secret="s3cret", signature_header="X-Signature")
        orders = hw.App("shop").workflow("orders").topic("orders", dict, webhook=hook)
        ```
    """

    id_header: str = ""
    id_path: str = ""
    secret: Secret | Sequence[Secret] | None = field(default=None, repr=False)
    signature_header: str = ""
    signature_prefix: str = ""
    digest: str = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    forms: bool = False
    form_json: str = ""
    headers: Sequence[str] = ()
    scheme: Signature | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if bool(self.id_header) == bool(self.id_path):
            raise DeclarationError(
                "hw.Webhook(): say where the id of an event is, either id_header='X-Request-Id' or id_path='data/id'"
            )
        names: tuple[object, ...] = (self.id_header, self.signature_header, *self.headers)
        for name in filter(None, names):
            if not isinstance(name, str) or len(name) > _HEADER_MAX or not name.replace("-", "x").isalnum():
                raise DeclarationError(f"hw.Webhook(): {name!r} is not the name of a header")
        if self.secret is not None and self.scheme is None and not self.signature_header:
            raise DeclarationError("hw.Webhook(secret=...): name the header of the signature, signature_header='X-...'")
        if self.signature_header and self.secret is None:
            raise DeclarationError("hw.Webhook(signature_header=...): a signature is verified with a secret=...")
        if self.digest not in hashlib.algorithms_guaranteed or self.digest.startswith("shake"):
            raise DeclarationError(f"hw.Webhook(digest={self.digest!r}): a hash of hashlib is expected, such as sha256")
        if self.encoding not in ("hex", "base64"):
            raise DeclarationError(f"hw.Webhook(encoding={self.encoding!r}): hex or base64 is expected")

    # -- services ------------------------------------------------------------------------------------------

    @classmethod
    def github(cls, secret: Secret | Sequence[Secret]) -> Webhook:
        """The webhooks of GitHub and compatible services such as Gitea and Forgejo, as JSON or as a form.

        The kind of the event is the field `x_github_event`.

        Args:
            secret: The secret of the webhook, or several while it is replaced.

        Returns:
            The webhook.

        Example:
            ```python
            import headwater as hw

            flow = hw.App("ci").workflow("ci")
            pushes = flow.topic("pushes", dict, webhook=hw.Webhook.github("the secret"))
            ```
        """
        return cls(
            id_header="X-GitHub-Delivery",
            secret=secret,
            signature_header="X-Hub-Signature-256",
            signature_prefix="sha256=",
            forms=True,
            form_json="payload",
            headers=("X-GitHub-Event",),
        )

    @classmethod
    def stripe(cls, secret: Secret | Sequence[Secret]) -> Webhook:
        """The webhooks of Stripe: the id is in the body, and the signature has a time.

        Args:
            secret: The secret of the webhook, or several while it is replaced.

        Returns:
            The webhook.
        """
        return cls(id_path="id", secret=secret, scheme=StripeSignature())

    @classmethod
    def standard(cls, secret: Secret | Sequence[Secret]) -> Webhook:
        """The webhooks of services that follow Standard Webhooks.

        Their headers are `webhook-id`, `webhook-timestamp` and `webhook-signature`.

        Args:
            secret: The secret of the webhook, or several while it is replaced.

        Returns:
            The webhook.
        """
        return cls(id_header="webhook-id", secret=secret, scheme=StandardSignature())

    # -- one post ------------------------------------------------------------------------------------------

    @property
    def is_signed(self) -> bool:
        """Whether a post has to be signed."""
        return self.secret is not None

    def takes(self, kind: str) -> bool:
        """Whether bodies of this content type are read."""
        return kind == JSON or kind.endswith("+json") or (self.forms and kind == FORM)

    def secrets(self) -> list[bytes]:
        """The current shared secrets. Raises UsageError if there is none."""
        given = self.secret
        many = [given] if isinstance(given, str | bytes) or callable(given) else list(given or ())
        found: list[object] = [each() if callable(each) else each for each in many]
        known = [each for each in found if isinstance(each, str | bytes) and each]
        if self.is_signed and (not known or len(known) < len(found)):
            raise UsageError("hw.Webhook(secret=...): the secret is empty; is the variable of the environment set?")
        found_bytes = [each.encode() if isinstance(each, str) else each for each in known]
        return (
            [_standard_key(each) for each in found_bytes] if isinstance(self.scheme, StandardSignature) else found_bytes
        )

    def verify(self, headers: Mapping[str, str], body: bytes, now_s: float) -> None:
        """Raises WebhookRefusal unless the post is signed as required."""
        if not self.is_signed:
            return
        scheme = self.scheme or BodySignature(self.signature_header, self.digest, self.encoding, self.signature_prefix)
        scheme.check(headers, body, self.secrets(), now_s)

    def payload(self, kind: str, headers: Mapping[str, str], body: bytes) -> object:
        """The value of a body. Raises WebhookRefusal."""
        value = self._form(body) if kind == FORM else _json(body)
        if not self.headers:
            return value
        if not isinstance(value, dict):
            raise WebhookRefusal(400, "the payload is not an object, and headers are to be added to it")
        added = {name.lower().replace("-", "_"): headers.get(name.lower(), "") for name in self.headers}
        return {**value, **added}

    def id_of(self, headers: Mapping[str, str], value: object) -> str:
        """The id that the service gave to the event. Raises WebhookRefusal."""
        if self.id_header:
            found = headers.get(self.id_header.lower(), "").strip()
            if not found:
                raise WebhookRefusal(400, f"the header {self.id_header} is missing: it is the id of the event")
            return found
        for part in self.id_path.split("/"):
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                value = None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise WebhookRefusal(400, f"the payload has no id at {self.id_path}: a text or a number is expected there")
        return str(value)

    def _form(self, body: bytes) -> object:
        try:
            fields = parse_qsl(
                body.decode(),
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=FORM_FIELDS_MAX,
            )
        except ValueError as error:
            raise WebhookRefusal(400, f"the payload is no form: {error}") from None
        named: dict[str, str | list[str]] = {}
        for name, text in fields:
            known = named.get(name)
            if known is None:
                named[name] = text
            else:
                named[name] = [*(known if isinstance(known, list) else [known]), text]
        if not self.form_json:
            return named
        whole = named.get(self.form_json)
        if not isinstance(whole, str):
            raise WebhookRefusal(400, f"the form has no single field {self.form_json!r} with the payload as JSON")
        return _json(whole.encode())


def _json(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WebhookRefusal(400, f"the payload is not JSON: {error}") from None
