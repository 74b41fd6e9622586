"""Where webhooks' messages go and where not, how they are signed, and how each failure is named."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence

import httpcore
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.imports.guarded_https import PublicBackend
from counterpose_gateway.records.deliveries import LeasedDelivery
from counterpose_gateway.webhooks.target import NotDeliveredError, Target, require_target, signature
from counterpose_processes.ports import free_port
from fakes.webhook_receiver import Answering, drip, silence, status, webhook_receiver

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
PUBLIC = "93.184.216.34"


def message(url: str) -> LeasedDelivery:
    body = json.dumps({"type": "run.completed"})
    return LeasedDelivery(
        id=1, message="msg_1", event="run.completed", run_id="a" * 32, body=body, attempts=1, fence=1,
        url=url, tenant="default", secret=SECRET,
    )  # fmt: skip


def failure(target: Target, url: str) -> NotDeliveredError:
    """How a try to post to an address fails."""
    with pytest.raises(NotDeliveredError) as found:
        target.post(message(url))
    return found.value


def test_a_message_carries_id_time_and_a_signature_that_another_library_accepts() -> None:
    with webhook_receiver(status(204)) as receiver:
        Target(private=True).post(message(receiver.url))
    (got,) = receiver.received
    read = Webhook(SECRET).verify(got.body, dict(got.headers))
    assert read == {"type": "run.completed"}
    assert got.headers["webhook-id"] == "msg_1"
    assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 60
    assert got.headers["content-type"] == "application/json"
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(got.body + b" ", dict(got.headers))


def test_the_signature_is_that_of_the_standard_s_own_example() -> None:
    # The example of the specification: github.com/standard-webhooks/standard-webhooks.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    signed = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.fault("B57")
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/hook", "does not begin with https"),
        ("ftp://example.com/", "does not begin with https"),
        ("https://127.0.0.1/hook", "no public address"),
        ("https://10.0.0.5/", "no public address"),
        ("https://[::1]/", "no public address"),
        ("https://[::ffff:169.254.169.254]/", "no public address"),
        ("https://localhost:8080/", "no public address"),
        ("https://user:word@example.com/", "user, a password or a fragment"),
        ("https://example.com/#part", "user, a password or a fragment"),
        ("https://", "is no address"),
        ("https://example.com:99999/", "is no address"),
        ("https://example.com/a b", "is no address"),
        ("hook", "is no address"),
    ],
)
def test_an_address_that_is_not_public_https_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as found:
        require_target(url, private=False)
    assert found.value.pointer == "/url"


def test_a_setting_admits_private_networks_and_plain_http() -> None:
    require_target("http://127.0.0.1:9000/hook", private=True)
    require_target("https://hooks.example.com/a?b=c", private=False)


class Servers(httpcore.NetworkBackend):
    """Notes what is dialled, and refuses it."""

    def __init__(self) -> None:
        self.dialled: list[str] = []

    def connect_tcp(self, host: str, *args: object, **options: object) -> httpcore.NetworkStream:
        self.dialled.append(host)
        raise httpcore.ConnectError("refused")


@pytest.mark.parametrize("found", [["10.0.0.5"], [PUBLIC, "127.0.0.1"]])
def test_a_name_that_leads_to_a_private_network_is_not_dialled(found: Sequence[str]) -> None:
    servers = Servers()
    target = Target(backend=PublicBackend(lambda host, port: found, servers))
    refused = failure(target, "https://hooks.example.com/")
    assert (refused.failure, servers.dialled) == ("refused", [])
    assert "has no public address" in refused.detail
    assert found[-1] not in refused.detail, "who asks is told no address of the inner network"


@pytest.mark.fault("B57")
@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "10.1", "0"])
def test_an_address_in_disguise_is_looked_up_and_not_dialled(host: str) -> None:
    # The system's own look-up takes these for addresses; a plain parser does not.
    servers = Servers()
    found = failure(Target(backend=PublicBackend(sockets=servers)), f"https://{host}/")
    assert (found.failure, servers.dialled) == ("refused", [])


def test_a_public_name_is_dialled_by_the_address_that_was_looked_at() -> None:
    servers = Servers()
    target = Target(backend=PublicBackend(lambda host, port: [PUBLIC], servers))
    assert failure(target, "https://hooks.example.com/").failure == "unreachable"
    assert servers.dialled == [PUBLIC]


@pytest.mark.fault("F28", "B57")
@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (status(500), "rejected"),
        (status(410), "rejected"),
        (status(302, location="http://169.254.169.254/latest"), "redirected"),
        (status(307, location="/elsewhere"), "redirected"),
        (silence, "timed-out"),
        (drip, "timed-out"),
    ],
    ids=["500", "410", "redirect inward", "redirect", "silence", "drip"],
)
def test_each_failure_of_a_target_has_a_name_and_takes_no_longer_than_allowed(
    answer: Answering, named: str
) -> None:
    began = time.monotonic()
    with webhook_receiver(answer) as receiver:
        # Long enough for a busy machine to ask, or to be answered by a target that does answer.
        seconds = 1.0 if named == "timed-out" else 100.0
        assert failure(Target(private=True, seconds=seconds), receiver.url).failure == named
        assert len(receiver.received) == 1
    # Without a limit, silence and drip would go on until the block ends.
    assert time.monotonic() - began < 100.0


def test_a_target_where_nobody_listens_is_unreachable() -> None:
    found = failure(Target(private=True), f"http://127.0.0.1:{free_port()}/")
    assert found.failure == "unreachable"


def test_by_default_names_are_looked_up_and_private_ones_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    inward = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: inward)
    assert failure(Target(), "https://hooks.example.com/").failure == "refused"
