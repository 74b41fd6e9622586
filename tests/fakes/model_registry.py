"""MLflow's registry and a gateway's gates in memory, each of which may be away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from counterpose_core.errors import CounterposeError


class RegistryAway(Exception):
    """What MLflow's client raises; its module says whose it is."""

    error_code = "INTERNAL_ERROR"


class NoSuchVersion(RegistryAway):
    """A version that was deleted."""

    error_code = "RESOURCE_DOES_NOT_EXIST"


RegistryAway.__module__ = NoSuchVersion.__module__ = "mlflow.exceptions"


@dataclass
class FakeVersion:
    """A version in the registry."""

    version: str
    creation_timestamp: int
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeRegistry:
    """MLflow's client, as far as gates ask it; ``writes`` tells each tag in its order."""

    versions: dict[str, list[FakeVersion]]
    away: bool = False
    writes: list[tuple[str, str, str]] = field(default_factory=list)

    def get_model_version(self, name: str, version: str) -> FakeVersion:
        """Return a version."""
        self._check()
        found = [each for each in self.versions[name] if each.version == version]
        if not found:
            raise NoSuchVersion("no such version")
        return found[0]

    def search_model_versions(self, query: str) -> list[FakeVersion]:
        """Return the versions of ``name = '...'``."""
        self._check()
        return list(self.versions[query.removeprefix("name = '").removesuffix("'").replace("''", "'")])

    def set_model_version_tag(self, name: str, version: str, key: str, value: str) -> None:
        """Set a tag."""
        self.get_model_version(name, version).tags[key] = value
        self.writes.append((version, key, value))

    def _check(self) -> None:
        if self.away:
            raise RegistryAway("connection refused")


@dataclass
class FakeGate:
    """A gate that ends when the test says so."""

    id: str
    summarized: Any
    state: str = "in_progress"

    @property
    def page(self) -> str:
        """Its page."""
        return f"http://gateway.test/ui/runs/{self.id}"

    @property
    def run(self) -> FakeGate:
        """Its run, of which only the state is asked."""
        return self

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.state != "in_progress"

    def refresh(self) -> FakeGate:
        """Ask again."""
        return self

    def summary(self) -> Any:
        """What it came to."""
        return self.summarized


@dataclass
class FakeGates:
    """A client of a gateway that has gates only; equal keys get one gate."""

    summarized: Any
    error: CounterposeError | None = None
    made: dict[str, FakeGate] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def gates(self) -> FakeGates:
        """The resource."""
        return self

    def create(self, **told: Any) -> FakeGate:
        """Ask for a gate."""
        if self.error is not None:
            raise self.error
        self.asked.append(told)
        key = told["idempotency_key"]
        return self.made.setdefault(key, FakeGate(f"gate-{len(self.made) + 1}", self.summarized))
