"""Strict models of what we use of a RayService (KubeRay 1.7.0), and the version that each field needs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from manifests.fields import (
    ClaimSpec,
    ContainerSecurity,
    DeploymentSpec,
    DisruptionSpec,
    IngressSpec,
    Labels,
    Metadata,
    Name,
    PolicySpec,
    Resources,
    ScalerSpec,
    ServiceSpec,
    Strict,
    Template,
)
from manifests.monitoring_fields import RulesSpec, ServiceMonitorSpec
from manifests.rendering import Document

FIRST_VERSIONS = {
    "authOptions": (1, 5, 1),
    "authOptions.secretName": (1, 6, 0),
    "rayClusterDeletionDelaySeconds": (1, 5, 0),
    "autoscalerOptions.version": (1, 4, 0),
    "excludeHeadPodFromServeSvc": (1, 3, 0),
    # Since 1.5.0, but behind a feature gate.
    "upgradeStrategy.clusterUpgradeOptions": (1, 7, 0),
}
"""The first KubeRay release whose types have the field (tags of github.com/ray-project/kuberay)."""


class AuthOptions(Strict):
    mode: Literal["token"]
    secret_name: Name | None = None


class AutoscalerOptions(Strict):
    version: Literal["v2"]
    idle_timeout_seconds: int
    security_context: ContainerSecurity
    resources: Resources


class HeadGroup(Strict):
    ray_start_params: Labels
    template: Template


class WorkerGroup(Strict):
    group_name: Name
    replicas: int
    min_replicas: int
    max_replicas: int
    ray_start_params: Labels
    template: Template


class RayCluster(Strict):
    ray_version: str
    auth_options: AuthOptions
    enable_in_tree_autoscaling: bool = False
    autoscaler_options: AutoscalerOptions | None = None
    head_group_spec: HeadGroup
    worker_group_specs: list[WorkerGroup] = Field(min_length=1)


class UpgradeOptions(Strict):
    gateway_class_name: Name
    max_surge_percent: int = Field(ge=0, le=100)
    step_size_percent: int = Field(ge=0, le=100)
    interval_seconds: int = Field(gt=0)


class UpgradeStrategy(Strict):
    type: Literal["NewClusterWithIncrementalUpgrade"]
    cluster_upgrade_options: UpgradeOptions


class RayServiceSpec(Strict):
    ray_cluster_deletion_delay_seconds: int = Field(default=60, ge=0)
    exclude_head_pod_from_serve_svc: bool = False
    upgrade_strategy: UpgradeStrategy | None = None
    # KubeRay ends it with a digit, which the generator of names would separate.
    serve_config: str = Field(alias="serveConfigV2")
    ray_cluster_config: RayCluster


SPECS: dict[str, tuple[str, type[Strict]]] = {
    "Deployment": ("apps/v1", DeploymentSpec),
    "Service": ("v1", ServiceSpec),
    "PersistentVolumeClaim": ("v1", ClaimSpec),
    "NetworkPolicy": ("networking.k8s.io/v1", PolicySpec),
    "Ingress": ("networking.k8s.io/v1", IngressSpec),
    "HorizontalPodAutoscaler": ("autoscaling/v2", ScalerSpec),
    "PodDisruptionBudget": ("policy/v1", DisruptionSpec),
    "ServiceMonitor": ("monitoring.coreos.com/v1", ServiceMonitorSpec),
    "PrometheusRule": ("monitoring.coreos.com/v1", RulesSpec),
    "RayService": ("ray.io/v1", RayServiceSpec),
    "RayCluster": ("ray.io/v1", RayCluster),
}


def require_known_fields(document: Document) -> None:
    """Raise ValidationError or AssertionError if a document has fields that its kind does not."""
    Metadata.model_validate(document["metadata"])
    if document["kind"] == "ConfigMap":
        assert set(document) == {"apiVersion", "kind", "metadata", "data"}
        return
    version, spec = SPECS[document["kind"]]
    assert document["apiVersion"] == version, document["kind"]
    assert set(document) == {"apiVersion", "kind", "metadata", "spec"}
    spec.model_validate(document["spec"])


def first_version(spec: Document) -> tuple[int, ...]:
    """Return the oldest KubeRay that knows every field of the spec of a RayService or RayCluster."""
    nested: list[dict[str, Any]] = [spec, spec.get("rayClusterConfig", {})]
    found = [(0, 0, 0)]
    for path, version in FIRST_VERSIONS.items():
        outer, _, inner = path.partition(".")
        if any(outer in fields and (not inner or inner in fields[outer]) for fields in nested):
            found.append(version)
    return max(found)
