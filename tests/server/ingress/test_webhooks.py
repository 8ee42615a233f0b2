"""Services that name, write and sign their posts in their own way are read as their topic's webhook describes them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import urlencode

import httpx
import pytest

import headwater as hw
from headwater.declare.workflows.webhook import FORM_FIELDS_MAX
from headwater.errors import DeclarationError, UsageError
from headwater.server.ingress import serve_ingress
from headwater.testing import SimClock, open_at

SECRET = "it's a secret to everybody"  # noqa: S105  # GitHub's own example
NOW_S = 1_700_000_000


def sha256(secret: str | bytes, body: bytes) -> bytes:
    return hmac.new(secret.encode() if isinstance(secret, str) else secret, body, hashlib.sha256).digest()


class Hooks:
    """An app with one topic per service; `seen` is what its consumer was given, in order."""

    def __init__(self) -> None:
        self.app = app = hw.App("hooks")
        flow = app.workflow("hooks")
        self.seen: list[tuple[str, str, object]] = []
        self.secrets: list[str | bytes] = ["new", "old"]
        described = {
            "github": hw.Webhook.github(SECRET),
            "stripe": hw.Webhook.stripe(lambda: "whsec_stripe"),
            "standard": hw.Webhook.standard("whsec_" + base64.b64encode(b"key").decode()),
            "shopify": hw.Webhook(
                id_header="X-Shopify-Webhook-Id",
                secret=[lambda: self.secrets[0], lambda: self.secrets[1]],
                signature_header="X-Shopify-Hmac-Sha256",
                encoding="base64",
            ),
            "sms": hw.Webhook(id_header="I-Twilio-Idempotency-Token", forms=True),
            "nested": hw.Webhook(id_path="events/0/id"),
        }
        topics = {name: flow.topic(name, dict, webhook=webhook) for name, webhook in described.items()}
        topics["plain"] = flow.topic("plain", dict)
        seen = self.seen

        @flow.consumer(*topics.values(), peek=1000)
        class See(hw.Consumer[dict, None, None]):  # type: ignore[type-arg]  # whatever is sent
            def prepare(self, pending: Sequence[hw.Event[dict]]) -> hw.Plan[None]:  # type: ignore[type-arg]
                seen.extend((event.topic, event.id, dict(event.data)) for event in pending)
                return hw.Plan(None, take=pending)


class Poster:
    def __init__(self, client: httpx.Client, space: hw.Space) -> None:
        self.client = client
        self.space = space

    def __call__(
        self, topic: str, body: bytes, headers: Mapping[str, str], kind: str = "application/json"
    ) -> httpx.Response:
        return self.client.post(f"/topics/hooks/{topic}", content=body, headers={"Content-Type": kind, **headers})


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def post(hooks: Hooks) -> Iterator[Poster]:
    """Served with a token, which none of these services can send."""
    clock = SimClock(NOW_S * 1000)
    with (
        open_at(hooks.app, clock) as space,
        serve_ingress(space, token="token") as server,  # noqa: S106  # of a test
        httpx.Client(base_url=server.url, trust_env=False, timeout=300) as client,
    ):
        yield Poster(client, space)


def seen(hooks: Hooks, post: Poster) -> list[tuple[str, str, object]]:
    post.space.workflows.drain()
    return hooks.seen


# --- the services ---------------------------------------------------------------------------------------------


def github(body: bytes, secret: str = SECRET) -> dict[str, str]:
    signature = f"sha256={sha256(secret, body).hex()}"
    return {"X-GitHub-Delivery": "72d3162e", "X-GitHub-Event": "push", "X-Hub-Signature-256": signature}


def stripe(body: bytes, at: int = NOW_S, secret: str = "whsec_stripe") -> dict[str, str]:  # noqa: S107
    signature = sha256(secret, f"{at}.".encode() + body).hex()
    return {"Stripe-Signature": f"t={at},v1={'0' * 64},v1={signature},v0=ignored"}


def standard(body: bytes, at: int = NOW_S) -> dict[str, str]:
    signature = base64.b64encode(sha256(b"key", f"msg_1.{at}.".encode() + body)).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": f"v1,bm8= v1,{signature}"}


def shopify(body: bytes, secret: str = "old") -> dict[str, str]:  # noqa: S107
    signature = base64.b64encode(sha256(secret, body)).decode()
    return {"X-Shopify-Webhook-Id": "b54557e4", "X-Shopify-Hmac-Sha256": signature}


def test_github_posts_json_with_its_delivery_id_and_its_event(hooks: Hooks, post: Poster) -> None:
    body = b'{"ref": "refs/heads/main"}'
    answer = post("github", body, github(body))
    assert (answer.status_code, answer.json()) == (202, {"id": "72d3162e", "new": True})
    assert post("github", body, github(body)).json()["new"] is False  # redelivered
    assert seen(hooks, post) == [("github", "72d3162e", {"ref": "refs/heads/main", "x_github_event": "push"})]


def test_github_posts_a_form_with_the_payload_in_one_field(hooks: Hooks, post: Poster) -> None:
    body = urlencode({"payload": json.dumps({"zen": "é & =", "n": 1})}).encode()
    assert post("github", body, github(body), "application/x-www-form-urlencoded").status_code == 202
    assert seen(hooks, post) == [("github", "72d3162e", {"zen": "é & =", "n": 1, "x_github_event": "push"})]


def test_stripe_posts_have_their_id_in_the_body(hooks: Hooks, post: Poster) -> None:
    body = b'{"id": "evt_1", "pending_webhooks": 2}'
    answer = post("stripe", body, stripe(body), "application/json; charset=utf-8")
    assert (answer.status_code, answer.json()) == (202, {"id": "evt_1", "new": True})
    # Sent again it differs in a count: still the same event, not an id used twice.
    body = b'{"id": "evt_1", "pending_webhooks": 1}'
    assert post("stripe", body, stripe(body)).json() == {"id": "evt_1", "new": False}
    assert [(topic, name) for topic, name, _ in seen(hooks, post)] == [("stripe", "evt_1")]


def test_standard_webhooks_sign_id_time_and_body(hooks: Hooks, post: Poster) -> None:
    body = b'{"type": "user.created"}'
    assert post("standard", body, standard(body)).status_code == 202
    assert seen(hooks, post) == [("standard", "msg_1", {"type": "user.created"})]


def test_each_of_several_secrets_is_good_while_they_are_exchanged(hooks: Hooks, post: Poster) -> None:
    body = b"{}"
    assert post("shopify", body, shopify(body)).status_code == 202
    assert post("shopify", body, shopify(body, "new")).status_code == 202
    assert post("shopify", body, shopify(body, "older")).status_code == 401
    hooks.secrets[1] = b"older"  # read at each post
    assert post("shopify", body, shopify(body, "older")).status_code == 202


def test_an_unsigned_webhook_needs_the_token_and_takes_forms_where_it_says_so(hooks: Hooks, post: Poster) -> None:
    body, form = b"From=%2B49&Body=hi+there&Media=a&Media=b", "application/x-www-form-urlencoded"
    headers = {"I-Twilio-Idempotency-Token": "x"}
    assert post("sms", body, headers, form).status_code == 401
    bearer = headers | {"Authorization": "Bearer token"}
    assert post("sms", body, bearer, form).status_code == 202
    assert post("nested", body, bearer, form).status_code == 415
    assert seen(hooks, post) == [("sms", "x", {"From": "+49", "Body": "hi there", "Media": ["a", "b"]})]


# --- what is refused ------------------------------------------------------------------------------------------


BODY = b'{"id": "evt_1"}'
FORGED: dict[str, Callable[[], tuple[str, bytes, Mapping[str, str]]]] = {
    "unsigned": lambda: ("github", BODY, {"X-GitHub-Delivery": "a"}),
    "another secret": lambda: ("github", BODY, github(BODY, "guess")),
    "another body": lambda: ("github", BODY, github(b'{"id": "evt_2"}')),
    "no prefix": lambda: ("github", BODY, {**github(BODY), "X-Hub-Signature-256": sha256(SECRET, BODY).hex()}),
    "no hex": lambda: ("github", BODY, {**github(BODY), "X-Hub-Signature-256": "sha256=xyz"}),
    "empty": lambda: ("github", BODY, {**github(BODY), "X-Hub-Signature-256": "sha256="}),
    "old": lambda: ("stripe", BODY, stripe(BODY, NOW_S - 301)),
    "from the future": lambda: ("stripe", BODY, stripe(BODY, NOW_S + 301)),
    "another time": lambda: (
        "stripe",
        BODY,
        {"Stripe-Signature": stripe(BODY)["Stripe-Signature"].replace("t=17", "t=18", 1)},
    ),
    "no time": lambda: ("stripe", BODY, {"Stripe-Signature": "v1=00"}),
    "strange time": lambda: ("stripe", BODY, {"Stripe-Signature": "t=1e9,v1=00"}),
    "no signature": lambda: ("stripe", BODY, {"Stripe-Signature": f"t={NOW_S}"}),
    "another id": lambda: ("standard", BODY, {**standard(BODY), "webhook-id": "msg_2"}),
    "another version": lambda: ("standard", BODY, {**standard(BODY), "webhook-signature": "v2,AAAA"}),
    "no base64": lambda: ("shopify", BODY, {**shopify(BODY), "X-Shopify-Hmac-Sha256": "!"}),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_post_that_is_not_signed_as_it_has_to_be_is_refused(name: str, hooks: Hooks, post: Poster) -> None:
    answer = post(*FORGED[name]())
    assert answer.status_code == 401
    assert SECRET not in answer.text
    assert seen(hooks, post) == []


@pytest.mark.parametrize(
    "path", ["/topics/hooks/plain", "/topics/hooks/nothing", "/topics/github", "/topics/hooks/github/"]
)
def test_a_signature_opens_no_other_path(path: str, post: Poster) -> None:
    assert post.client.post(path, content=BODY, headers=github(BODY)).status_code == 401


@pytest.mark.parametrize(
    ("topic", "body", "said"),
    [
        ("nested", b'{"events": []}', "no id at events/0/id"),
        ("nested", b'{"events": [{"id": true}]}', "no id at events/0/id"),
        ("nested", b'{"events": [{"id": null}]}', "no id at events/0/id"),
        ("nested", b"[1]", "no id at events/0/id"),
        ("nested", b"{", "is not JSON"),
        ("sms", b"{}", "the header I-Twilio-Idempotency-Token is missing"),
    ],
)
def test_a_post_without_its_id_is_refused(topic: str, body: bytes, said: str, post: Poster) -> None:
    answer = post(topic, body, {"Authorization": "Bearer token"})
    assert answer.status_code == 400
    assert said in answer.json()["error"]


@pytest.mark.parametrize("body", [b"a", b"a=%ff", "&".join(f"a{n}=1" for n in range(FORM_FIELDS_MAX + 1)).encode()])
def test_a_form_that_is_none_is_refused(body: bytes, hooks: Hooks, post: Poster) -> None:
    headers = {"Authorization": "Bearer token", "I-Twilio-Idempotency-Token": "x"}
    answer = post("sms", body, headers, "application/x-www-form-urlencoded")
    assert answer.status_code == 400
    assert "is no form" in answer.json()["error"]
    assert seen(hooks, post) == []


def test_a_number_is_an_id_too(hooks: Hooks, post: Poster) -> None:
    answer = post("nested", b'{"events": [{"id": 17}]}', {"Authorization": "Bearer token"})
    assert answer.json() == {"id": "17", "new": True}


# --- what is declared -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "where the id of an event is"),
        ({"id_header": "A", "id_path": "b"}, "where the id of an event is"),
        ({"id_header": "no header"}, "'no header' is not the name of a header"),
        ({"id_header": "A", "secret": "x"}, "name the header of the signature"),
        ({"id_header": "A", "signature_header": "B"}, "verified with a secret"),
        ({"id_header": "A", "digest": "md6"}, "a hash of hashlib"),
        ({"id_header": "A", "encoding": "hexx"}, "hex or base64"),
    ],
)
def test_a_webhook_that_cannot_work_is_refused_where_it_is_declared(given: dict[str, str], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        hw.Webhook(**given)


def test_something_else_than_a_webhook_is_refused() -> None:
    flow = hw.App("a").workflow("f")
    with pytest.raises(DeclarationError, match=r"webhook= is a hw\.Webhook"):
        flow.topic("t", dict, webhook="github")


def test_a_secret_is_in_no_repr() -> None:
    assert SECRET not in repr(hw.Webhook.github(SECRET))


def test_a_secret_that_is_not_set_is_found_when_the_ingress_starts() -> None:
    app = hw.App("a")
    flow = app.workflow("f")
    topic = flow.topic("t", dict, webhook=hw.Webhook.github(lambda: ""))

    @flow.consumer(topic)
    class See(hw.Consumer[dict, None, None]):  # type: ignore[type-arg]
        def prepare(self, pending: Sequence[hw.Event[dict]]) -> hw.Plan[None]:  # type: ignore[type-arg]
            return hw.Plan.idle()

    with app.open("memory:") as space, pytest.raises(UsageError, match="the secret is empty"):
        serve_ingress(space)


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!!"])
def test_a_standard_secret_without_a_key_is_found_when_the_ingress_starts(secret: str) -> None:
    """An empty key would let anybody sign."""
    app = hw.App("a")
    flow = app.workflow("f")
    topic = flow.topic("t", dict, webhook=hw.Webhook.standard(secret))

    @flow.consumer(topic)
    class See(hw.Consumer[dict, None, None]):  # type: ignore[type-arg]
        def prepare(self, pending: Sequence[hw.Event[dict]]) -> hw.Plan[None]:  # type: ignore[type-arg]
            return hw.Plan.idle()

    with app.open("memory:") as space, pytest.raises(UsageError, match="and not to be empty"):
        serve_ingress(space)


def test_what_is_not_utf_8_is_refused_by_its_sender_s_fault(post: Poster) -> None:
    bearer = {"Authorization": "Bearer token"}
    assert post("nested", b'{"a": "\xff"}', bearer).status_code == 400
    assert post("plain", b'{"a": "\xff"}', bearer | {"Idempotency-Key": "a"}).status_code == 400
    headers = {name.encode(): value.encode() for name, value in standard(b"{}").items()} | {b"webhook-id": "€".encode()}
    answer = post.client.post(
        "/topics/hooks/standard", content=b"{}", headers=[*headers.items(), (b"content-type", b"application/json")]
    )
    assert answer.status_code == 401
