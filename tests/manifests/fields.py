"""Strict models of the fields that our manifests use: a misspelt or misplaced one is refused.

Names and kinds after Kubernetes' API reference (1.34) and KubeRay 1.7.0 (``ray-operator/apis/ray/v1``).
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

Port = Annotated[int, Field(ge=1, le=65535)]
Quantity = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(m|Mi|Gi)?$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")]
Labels = dict[str, str]


class Strict(BaseModel):
    """Fields as Kubernetes spells them, and no others."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, strict=True)


class Metadata(Strict):
    name: Name
    annotations: Labels = {}
    labels: Labels = {}


class Expression(Strict):
    key: str
    operator: Literal["Exists", "In"]
    values: list[str] = []


class Selector(Strict):
    match_labels: Labels = {}
    match_expressions: list[Expression] = []


class Reference(Strict):
    name: Name


class KeyReference(Strict):
    name: Name
    key: str


class ValueFrom(Strict):
    secret_key_ref: KeyReference


class Variable(Strict):
    name: str
    value: str | None = None
    value_from: ValueFrom | None = None


class EnvironmentFrom(Strict):
    config_map_ref: Reference | None = None
    secret_ref: Reference | None = None


class ContainerPort(Strict):
    name: Annotated[str, Field(max_length=15)]
    container_port: Port


class HttpGet(Strict):
    path: str
    port: Port | str


class Probe(Strict):
    http_get: HttpGet
    period_seconds: int = 10
    failure_threshold: int = 3


class Command(Strict):
    command: list[str]


class Handler(Strict):
    exec: Command


class Lifecycle(Strict):
    pre_stop: Handler


class SeccompProfile(Strict):
    type: Literal["RuntimeDefault"]


class Capabilities(Strict):
    drop: list[str]


class ContainerSecurity(Strict):
    allow_privilege_escalation: bool
    read_only_root_filesystem: bool
    capabilities: Capabilities
    seccomp_profile: SeccompProfile | None = None


class PodSecurity(Strict):
    run_as_non_root: bool
    run_as_user: int
    fs_group: int
    seccomp_profile: SeccompProfile | None = None


class Resources(Strict):
    requests: dict[str, Quantity]
    limits: dict[str, Quantity]


class Mount(Strict):
    name: Name
    mount_path: Annotated[str, Field(pattern="^/")]
    read_only: bool = False


class Container(Strict):
    name: Name
    image: str
    args: list[str] = []
    env: list[Variable] = []
    env_from: list[EnvironmentFrom] = []
    ports: list[ContainerPort] = []
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    security_context: ContainerSecurity
    resources: Resources
    volume_mounts: list[Mount]


class Claim(Strict):
    claim_name: Name
    read_only: bool = False


class SecretVolume(Strict):
    secret_name: Name
    optional: bool = False
    default_mode: Annotated[int, Field(ge=0, le=0o777)]


class EmptyDir(Strict):
    medium: Literal["Memory"] | None = None
    size_limit: Quantity | None = None


class Volume(Strict):
    name: Name
    persistent_volume_claim: Claim | None = None
    secret: SecretVolume | None = None
    empty_dir: EmptyDir | None = None


class Toleration(Strict):
    key: str
    operator: Literal["Exists"]
    effect: Literal["NoSchedule"]


class Spread(Strict):
    max_skew: int
    topology_key: str
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"]
    label_selector: Selector


class Pod(Strict):
    termination_grace_period_seconds: int = 30
    automount_service_account_token: bool = True
    security_context: PodSecurity
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[Spread] = []
    containers: list[Container]
    volumes: list[Volume]


class PodMetadata(Strict):
    labels: Labels


class Template(Strict):
    metadata: PodMetadata
    spec: Pod


class RollingUpdate(Strict):
    max_unavailable: int
    max_surge: int


class Strategy(Strict):
    type: Literal["Recreate", "RollingUpdate"]
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Strict):
    replicas: int = 1
    selector: Selector
    strategy: Strategy | None = None
    template: Template


class ServicePort(Strict):
    name: str
    port: Port
    target_port: Port | str


class ServiceSpec(Strict):
    selector: Labels
    ports: list[ServicePort]


class ClaimResources(Strict):
    requests: dict[Literal["storage"], Quantity]


class ClaimSpec(Strict):
    access_modes: list[Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]]
    resources: ClaimResources


class AddressBlock(Strict):
    cidr: str
    except_: list[str] = Field(default=[], alias="except")

    @model_validator(mode="after")
    def _within(self) -> AddressBlock:
        # The API refuses an exception that lies outside.
        block = ip_network(self.cidr)
        for part in map(ip_network, self.except_):
            if part.version != block.version or not block.overlaps(part) or part.prefixlen < block.prefixlen:
                raise ValueError(f"{part} is not in {block}")
        return self


class Peer(Strict):
    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: AddressBlock | None = None

    @model_validator(mode="after")
    def _one(self) -> Peer:
        if (self.ip_block is None) == (self.pod_selector is None and self.namespace_selector is None):
            raise ValueError("a peer is an address block or a selector")
        return self


class PolicyPort(Strict):
    port: Port
    protocol: Literal["TCP", "UDP"] = "TCP"


class EgressRule(Strict):
    to: list[Peer] | None = None
    ports: list[PolicyPort] | None = None


class IngressRule(Strict):
    from_: list[Peer] | None = Field(default=None, alias="from")
    ports: list[PolicyPort] | None = None


class PolicySpec(Strict):
    pod_selector: Selector
    policy_types: list[Literal["Ingress", "Egress"]]
    ingress: list[IngressRule] = []
    egress: list[EgressRule] = []

    @model_validator(mode="after")
    def _told(self) -> PolicySpec:
        # Rules of a type that is not named mean nothing.
        for rules, name in ((self.ingress, "Ingress"), (self.egress, "Egress")):
            if rules and name not in self.policy_types:
                raise ValueError(f"{name} rules, but policyTypes are {self.policy_types}")
        return self


class ScaleTarget(Strict):
    api_version: Literal["apps/v1"]
    kind: Literal["Deployment"]
    name: Name


class ScalerSpec(Strict):
    scale_target_ref: ScaleTarget
    min_replicas: int
    max_replicas: int
    metrics: list[dict[str, Any]]


class DisruptionSpec(Strict):
    max_unavailable: int | None = None
    min_available: int | None = None
    selector: Selector


class Tls(Strict):
    hosts: list[str]
    secret_name: Name


class NamedPort(Strict):
    name: str


class IngressService(Strict):
    name: Name
    port: NamedPort


class Backend(Strict):
    service: IngressService


class Path(Strict):
    path: str
    path_type: Literal["Prefix", "Exact"]
    backend: Backend


class Paths(Strict):
    paths: list[Path]


class Rule(Strict):
    host: str
    http: Paths


class IngressSpec(Strict):
    tls: list[Tls]
    rules: list[Rule]
