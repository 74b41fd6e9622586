"""New model versions through a gate: signatures, repeated and lost deliveries, and sides that are away.

With MLflow's own server and a gateway: `make test-trackers`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest

from counterpose._cli.exit_code import ExitCode
from counterpose._registry_gate.deliveries import ModelVersion, check_signature, created_version
from counterpose._registry_gate.receiver import LARGEST_BODY, Receiver
from counterpose._registry_gate.registry_gate import CATCH_UP_S, PATIENCE_S, GateRequest, RegistryGate
from counterpose._sync.client import Client
from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    DatasetEmpty,
    InvalidRequest,
    Unauthorized,
    UnknownModel,
)
from fakes.command import Play, run
from fakes.gate_summaries import A_SET, a_cell, a_gate
from fakes.model_registry import FakeGates, FakeRegistry, FakeVersion

SECRET, NOW = b"a secret of the webhook", 1_800_000_000.0
PETS = ModelVersion("pets", "7")
ASKED = GateRequest(
    baseline=A_SET, classifier="local:{name}-{version}", incumbent="local:pets", tolerance=0.05
)


def delivery(version: str = "7", name: str = "pets", **told: Any) -> bytes:
    """What MLflow sends when a version is created."""
    data: dict[str, Any] = {
        "name": name,
        "version": version,
        "source": "models:/m-1",
        "tags": {},
        "description": None,
    }
    body = {"entity": "model_version", "action": "created", "timestamp": "2026-11-26T12:00:00Z", "data": data}
    return json.dumps(body | told).encode()


def signed(
    body: bytes, *, at: float = NOW, secret: bytes = SECRET, delivery_id: str = "d-1"
) -> dict[str, str]:
    """The headers that MLflow sends with it."""
    told = str(int(at))
    mac = hmac.new(secret, f"{delivery_id}.{told}.".encode() + body, hashlib.sha256).digest()
    return {
        "x-mlflow-delivery-id": delivery_id,
        "x-mlflow-timestamp": told,
        "x-mlflow-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


class World:
    """A registry with a version, a gateway, and a clock that the test moves."""

    def __init__(self, **tags: str) -> None:
        self.now = NOW
        self.version = FakeVersion("7", int(NOW * 1000), dict(tags))
        self.registry = FakeRegistry({"pets": [self.version]})
        self.gates = FakeGates(a_gate([a_cell("passed")]))
        self.noted: list[str] = []
        self.gate = self.restarted()

    def restarted(self) -> RegistryGate:
        """A process that knows nothing yet."""
        client = cast("Client", self.gates)
        return RegistryGate(
            client, self.registry, ["pets"], ASKED, note=self.noted.append, clock=lambda: self.now
        )

    def steps(self, seconds: float = 0.0) -> None:
        """Let time pass and take every version a step further."""
        self.now += seconds
        self.gate.step()

    def ends(self) -> None:
        """All gates end."""
        for each in self.gates.made.values():
            each.state = "completed"


@pytest.mark.parametrize(
    "broken",
    [
        {"x-mlflow-signature": "v1," + base64.b64encode(b"x" * 32).decode()},
        {"x-mlflow-signature": "v1,no base64"},
        {"x-mlflow-signature": ""},
        {"x-mlflow-delivery-id": "d-2"},
        {"x-mlflow-timestamp": str(int(NOW) + 1)},
    ],
)
def test_a_delivery_that_the_secret_did_not_sign_is_refused(broken: dict[str, str]) -> None:
    body = delivery()
    check_signature(signed(body), body, SECRET, NOW)
    with pytest.raises(Unauthorized, match="not signed with this webhook's secret"):
        check_signature(signed(body) | broken, body, SECRET, NOW)


@pytest.mark.parametrize("at", [NOW - 301, NOW + 301])
def test_a_recorded_delivery_is_refused(at: float) -> None:
    body = delivery()
    with pytest.raises(Unauthorized, match="not within 300 s"):
        check_signature(signed(body, at=at), body, SECRET, NOW)


def test_a_delivery_names_a_created_version_or_nothing() -> None:
    assert created_version(delivery()) == PETS
    assert created_version(delivery(action="updated")) is None
    for body in (b"[]", b"{", b'{"entity": "model_version", "action": "created"}', delivery("latest")):
        with pytest.raises(InvalidRequest):
            created_version(body)


@pytest.mark.parametrize("state", ["passed", "failed", "inconclusive"])
def test_a_version_is_gated_once_and_tagged_with_the_outcome_last(state: Any) -> None:
    world = World()
    world.gates.summarized = a_gate([a_cell(state)])
    for _ in range(3):
        assert world.gate.take(PETS)
        world.steps()
    assert world.version.tags["counterpose.gate"] == "running"
    world.ends()
    world.steps()
    assert world.gate.waiting == 0
    assert world.registry.writes[-1] == ("7", "counterpose.gate", state)
    assert world.version.tags["counterpose.gate.report"] == "http://gateway.test/ui/runs/gate-1"
    assert world.version.tags["counterpose.gate.set"] == A_SET.digest
    world.gate.take(PETS)
    world.steps()
    [asked] = world.gates.asked
    assert (asked["classifiers"], asked["incumbent"]) == (["local:pets-7"], "local:pets")


def test_a_process_that_is_killed_finds_its_versions_and_gates_again() -> None:
    world = World()
    world.gate.take(PETS)
    world.steps()
    world.gate = world.restarted()
    world.gate.catch_up()
    world.ends()
    world.steps()
    assert world.version.tags["counterpose.gate"] == "passed"
    assert len(world.gates.made) == 1


def test_a_lost_delivery_is_made_up_for_unless_the_version_is_old_or_done() -> None:
    world = World()
    old = FakeVersion("6", int((NOW - CATCH_UP_S - 1) * 1000))
    done = FakeVersion("5", int(NOW * 1000), {"counterpose.gate": "failed"})
    world.registry.versions["pets"] += [old, done]
    world.gate.catch_up()
    assert world.gate.waiting == 1
    assert not world.gate.take(ModelVersion("others", "1"))


def test_a_registry_and_a_gateway_that_are_away_are_asked_again_after_pauses() -> None:
    world = World()
    world.registry.away = True
    world.gate.catch_up()
    assert "cannot list the versions of 'pets'" in world.noted[0]
    world.gate.take(PETS)
    world.steps()
    world.steps(4.0)
    assert len(world.noted) == 2
    assert "pets 7: tried again in 5 s" in world.noted[1]
    world.registry.away, world.gates.error = False, BackendUnavailable("the gateway does not answer")
    world.steps(1.0)
    assert "tried again in 15 s: the gateway does not answer" in world.noted[2]
    world.gates.error = None
    world.steps(15.0)
    world.registry.away = True
    world.ends()
    world.steps()
    world.registry.away = False
    world.steps(60.0)
    assert world.version.tags["counterpose.gate"] == "passed"
    assert len(world.gates.made) == 1


@pytest.mark.parametrize(
    ("error", "until"),
    [
        (DatasetEmpty("the run has no pairs"), 0.0),
        (UnknownModel("no classifier 'local:pets-7'"), PATIENCE_S),
        (Unauthorized("the key has expired"), None),
    ],
)
def test_what_cannot_be_gated_is_tagged_and_what_may_pass_is_tried_again(
    error: CounterposeError, until: float | None
) -> None:
    world = World()
    world.gates.error = error
    world.gate.take(PETS)
    world.steps()
    assert ("counterpose.gate" in world.version.tags) == (until == 0.0)
    world.steps(PATIENCE_S)
    assert ("counterpose.gate" in world.version.tags) == (until is not None)
    if until is not None:
        assert world.version.tags["counterpose.gate"] == "error"
        assert world.version.tags["counterpose.gate.verdict"] == f"{error.code}: {error.detail}"


def test_a_version_names_its_classifier_and_a_deleted_one_is_forgotten() -> None:
    world = World(**{"counterpose.classifier": "timm:resnet50"})
    world.gate.take(PETS)
    world.steps()
    assert world.gates.asked[0]["classifiers"] == ["timm:resnet50"]
    world.registry.versions["pets"].clear()
    world.steps()
    assert world.gate.waiting == 0


def test_a_gate_that_did_not_complete_is_an_error() -> None:
    world = World()
    world.gate.take(PETS)
    world.steps()
    for each in world.gates.made.values():
        each.state = "failed"
    world.steps()
    assert world.version.tags["counterpose.gate"] == "error"


@pytest.fixture
def receiver() -> Iterator[tuple[World, Receiver]]:
    """A receiver on a free port."""
    world = World()
    world.registry.versions = {"pets": []}
    opened = Receiver(world.gate, SECRET, "127.0.0.1", 0, step_s=0.02)
    yield world, opened
    opened.close()


def test_the_receiver_takes_signed_deliveries_alone(receiver: tuple[World, Receiver]) -> None:
    world, opened = receiver
    world.registry.versions["pets"].append(world.version)
    body = delivery()
    with httpx.Client(base_url=opened.address) as http:
        forged = http.post("/", content=body, headers=signed(body, at=time.time(), secret=b"another"))
        assert forged.status_code == 401
        assert world.gate.waiting == 0
        other = delivery(name="others")
        ignored = http.post("/", content=other, headers=signed(other, at=time.time()))
        assert (ignored.status_code, ignored.json()) == (200, {"detail": "not watched"})
        assert http.post("/", content=b"x" * (LARGEST_BODY + 1)).status_code == 413
        for _ in range(2):
            taken = http.post("/", content=body, headers=signed(body, at=time.time()))
            assert (taken.status_code, taken.json()) == (202, {"detail": "pets 7 is taken up"})
        assert http.get("/health").json() == {"waiting": 1}
        end = time.monotonic() + 10
        while world.version.tags.get("counterpose.gate") != "passed" and time.monotonic() < end:
            world.ends()
            time.sleep(0.02)
    assert world.version.tags["counterpose.gate"] == "passed"


def test_a_defect_ends_the_program_instead_of_its_work(receiver: tuple[World, Receiver]) -> None:
    world, opened = receiver
    world.gate.take(PETS)
    world.registry.versions = {}
    with pytest.raises(KeyError):
        opened.wait()


def test_a_short_secret_and_a_missing_file_are_refused(play: Play, tmp_path: Any) -> None:
    with pytest.raises(InvalidRequest, match="has 5 bytes; take at least 16"):
        Receiver(World().gate, b"short", "127.0.0.1", 0)
    play()
    done = run(
        "mlflow-gate", "--model", "pets", "--baseline", str(tmp_path / "no.json"), "--classifier", "x",
        "--secret-file", str(tmp_path / "secret"),
    )  # fmt: skip
    assert done.exit_code == ExitCode.USAGE
    assert "`counterpose freeze RUN" in done.output
