"""Which model versions await a gate, and one step of each: asked for, running, tagged."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from counterpose._registry_gate import tags
from counterpose._registry_gate.deliveries import ModelVersion
from counterpose._sync.client import Client
from counterpose._sync.gates import Gate
from counterpose_core.contract.gates import RegressionSet
from counterpose_core.errors import (
    CounterposeError,
    Forbidden,
    QuotaExceeded,
    RequestError,
    Unauthorized,
    UnknownModel,
)

PAUSES_S = (5.0, 15.0, 60.0, 300.0)
"""Between tries of a version while gateway or registry is away; the last is repeated without end."""
PATIENCE_S = 3600.0
"""How long a classifier may be unknown: a version is registered before its model is served."""
CATCH_UP_S = 7 * 24 * 3600.0
"""How old a version may be that is found without a delivery."""


@dataclass(frozen=True, kw_only=True)
class GateRequest:
    """What each version is compared with; ``classifier`` has places for ``{name}`` and ``{version}``."""

    baseline: str | RegressionSet
    classifier: str
    incumbent: str | None
    tolerance: float
    seed: int = 0

    def classifier_of(self, version: ModelVersion, told: dict[str, str]) -> str:
        """Return the gateway's classifier of a version: what its tag says, else the pattern filled in."""
        filled = self.classifier.replace("{name}", version.name).replace("{version}", version.version)
        return told.get(tags.CLASSIFIER) or filled

    def key(self, version: ModelVersion, classifier: str) -> str:
        """Return the idempotency key: a repeated delivery gets the gate of the first."""
        baseline = self.baseline if isinstance(self.baseline, str) else self.baseline.digest
        parts = (
            version.name,
            version.version,
            classifier,
            baseline,
            self.incumbent,
            self.tolerance,
            self.seed,
        )
        return "mlflow-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:48]


@dataclass
class _Waiting:
    since: float
    gate: Gate | None = None
    failures: int = 0
    next_try: float = 0.0


class RegistryGate:
    """Gates for the versions of some registered models.

    Nothing is kept here that is lost with the process: which versions have been through their gate is in
    their tags, and which gates were asked for is known to the gateway by their idempotency keys.

    Args:
        client: of the gateway.
        registry: MLflow's client.
        models: the registered models that are watched.
        asked: what each version is compared with.
        note: takes a line for the operator.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        registry: Any,
        models: Iterable[str],
        asked: GateRequest,
        *,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.models = frozenset(models)
        self._client, self._registry, self._asked = client, registry, asked
        self._note, self._clock = note, clock
        self._waiting: dict[ModelVersion, _Waiting] = {}
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of versions whose gate has not ended."""
        return len(self._waiting)

    def take(self, version: ModelVersion) -> bool:
        """Take up a version; return whether its model is watched. Repeated calls change nothing."""
        if version.name not in self.models:
            return False
        with self._lock:
            self._waiting.setdefault(version, _Waiting(self._clock()))
        return True

    def catch_up(self) -> None:
        """Take up the newest versions without an outcome, whose deliveries may have been lost.

        MLflow gives up a delivery after a few tries.
        """
        for name in sorted(self.models):
            try:
                quoted = name.replace("'", "''")
                for found in self._registry.search_model_versions(f"name = '{quoted}'"):
                    recent = found.creation_timestamp / 1000 >= self._clock() - CATCH_UP_S
                    if recent and not tags.is_final(found.tags):
                        self.take(ModelVersion(name, str(found.version)))
            except Exception as error:
                _raise_ours(error)
                self._note(f"cannot list the versions of {name!r}, looked again later: {_told(error)}")

    def step(self) -> None:
        """Take each waiting version a step further, those that failed after a pause only."""
        with self._lock:
            due = [each for each in self._waiting.items() if each[1].next_try <= self._clock()]
        for version, state in due:
            try:
                ended = self._advance(version, state)
            except Exception as error:
                _raise_ours(error)
                ended = False
                pause = PAUSES_S[min(state.failures, len(PAUSES_S) - 1)]
                state.failures, state.next_try = state.failures + 1, self._clock() + pause
                self._note(f"{version}: tried again in {pause:.0f} s: {_told(error)}")
            if ended:
                with self._lock:
                    del self._waiting[version]

    def _advance(self, version: ModelVersion, state: _Waiting) -> bool:
        known = self._tags_of(version)
        if known is None or tags.is_final(known):
            return True
        try:
            gate = state.gate or self._ask(version, known)
        except RequestError as error:
            if self._may_pass(error, state):
                raise
            # The request itself is wrong: no later try would get another answer.
            self._tag(version, tags.of_refusal(f"{error.code}: {error.detail}"))
            self._note(f"{version}: no gate can be made of it: {error.detail}")
            return True
        state.gate = gate
        if not gate.refresh().ended:
            if known.get(tags.RUN) != gate.id:
                self._tag(version, tags.while_running(gate))
            state.failures = 0
            return False
        outcome = tags.of_outcome(gate, gate.summary())
        self._tag(version, outcome)
        self._note(f"{version}: {outcome[tags.GATE]}, {outcome[tags.VERDICT]}")
        return True

    def _tags_of(self, version: ModelVersion) -> dict[str, str] | None:
        """Return the version's tags, or None if it has been deleted."""
        try:
            return dict(self._registry.get_model_version(version.name, version.version).tags)
        except Exception as error:
            if getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST":
                raise
            self._note(f"{version} has been deleted")
            return None

    def _may_pass(self, error: RequestError, state: _Waiting) -> bool:
        """Whether a refusal may end without a change of the request: a quota, a key, a model to come."""
        if isinstance(error, UnknownModel):
            return self._clock() < state.since + PATIENCE_S
        return error.retryable or isinstance(error, (Unauthorized, Forbidden, QuotaExceeded))

    def _ask(self, version: ModelVersion, known: dict[str, str]) -> Gate:
        classifier = self._asked.classifier_of(version, known)
        return self._client.gates.create(
            baseline=self._asked.baseline,
            classifiers=[classifier],
            incumbent=self._asked.incumbent,
            tolerance=self._asked.tolerance,
            seed=self._asked.seed,
            idempotency_key=self._asked.key(version, classifier),
        )

    def _tag(self, version: ModelVersion, told: dict[str, str]) -> None:
        for key, value in told.items():
            self._registry.set_model_version_tag(version.name, version.version, key, value)


def _raise_ours(error: Exception) -> None:
    """Raise again what is neither the gateway's nor the registry's failure."""
    origin = type(error).__module__.partition(".")[0]
    if not isinstance(error, CounterposeError) and origin not in (
        "mlflow",
        "requests",
        "urllib3",
        "sqlalchemy",
    ):
        raise error


def _told(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
