"""Counterpose finds where an image classifier breaks, with counterfactual images and paired statistics.

from counterpose import Client

client = Client("http://127.0.0.1:8080")
run = client.stress_tests.create(dataset="demo", classifiers=["leaning-resnet"], seed=0)
print(run.wait().summary())
"""

from typing import TYPE_CHECKING

from counterpose._lazy import lazily
from counterpose._version import __version__
from counterpose_core.kinds import KINDS as _KINDS

if TYPE_CHECKING:
    from counterpose._async.adversarial_datasets import AsyncAdversarialDataset
    from counterpose._async.bug_hunts import AsyncBugHunt
    from counterpose._async.client import AsyncClient
    from counterpose._async.dataset_interfaces import AsyncDatasetInterface
    from counterpose._async.gates import AsyncGate
    from counterpose._async.images import AsyncGeneratedImage, AsyncGeneratedImages
    from counterpose._async.shift_benchmarks import AsyncShiftBenchmark
    from counterpose._async.stress_tests import AsyncStressTest
    from counterpose._async.transfers import AsyncTransfer
    from counterpose._hub.datasets import push_to_hub
    from counterpose._hub.results import push_results_to_hub
    from counterpose._python_function.model import Classifier
    from counterpose._retries import RetryPolicy
    from counterpose._sync.adversarial_datasets import AdversarialDataset
    from counterpose._sync.bug_hunts import BugHunt
    from counterpose._sync.client import Client
    from counterpose._sync.dataset_interfaces import DatasetInterface
    from counterpose._sync.gates import Gate
    from counterpose._sync.images import GeneratedImage, GeneratedImages
    from counterpose._sync.shift_benchmarks import ShiftBenchmark
    from counterpose._sync.stress_tests import StressTest
    from counterpose._sync.transfers import Transfer
    from counterpose._trackers.mlflow import log_to_mlflow
    from counterpose._trackers.trackio import log_to_trackio
    from counterpose._trackers.wandb import log_to_wandb
    from counterpose_core import errors
    from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
    from counterpose_core.contract.bug_hunt_summary import BugHuntSummary
    from counterpose_core.contract.dataset_interfaces import DatasetInterfaceSummary
    from counterpose_core.contract.gates import GateSummary, RegressionSet
    from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
    from counterpose_core.contract.stress_tests import StressTestSummary
    from counterpose_core.contract.transfers import TransferSummary
    from counterpose_core.errors import (
        ArtifactCorrupt,
        ArtifactMissing,
        AttentionNotHooked,
        BackendError,
        BackendUnavailable,
        BadBackendOutput,
        Cancelled,
        ClassMapMismatch,
        ClusterRefused,
        CounterposeError,
        DatasetEmpty,
        DatasetNotReady,
        DeadlineExceeded,
        DiskFailed,
        Forbidden,
        ForeignOrigin,
        FunctionGone,
        HeadersTooLarge,
        IdempotencyConflict,
        IdempotencyInFlight,
        ImagesOutsideSuite,
        ImageTooLarge,
        ImageUndecodable,
        ImportRefused,
        InternalError,
        InvalidRequest,
        LeaseLost,
        LedgerDamaged,
        MalformedRequest,
        MethodNotAllowed,
        ModelFormatRefused,
        NotAcceptable,
        NotFound,
        NumericalFailure,
        PayloadTooLarge,
        PolicyRefused,
        PromptTooLong,
        QuotaExceeded,
        RateLimited,
        RequestError,
        RequestTimeout,
        ResourceExhausted,
        RunNotCancellable,
        RunNotDeletable,
        RunNotEnded,
        RunNotResumable,
        ShardUnreadable,
        SignedUrlRefused,
        StorageError,
        StorageFull,
        Unauthorized,
        UnknownDataset,
        UnknownEditType,
        UnknownModel,
        UnsupportedMedia,
    )
    from counterpose_core.types import Cost, EditType, Estimate

__all__ = [
    "AdversarialDataset",
    "AdversarialDatasetSummary",
    "ArtifactCorrupt",
    "ArtifactMissing",
    "AsyncAdversarialDataset",
    "AsyncBugHunt",
    "AsyncClient",
    "AsyncDatasetInterface",
    "AsyncGate",
    "AsyncGeneratedImage",
    "AsyncGeneratedImages",
    "AsyncShiftBenchmark",
    "AsyncStressTest",
    "AsyncTransfer",
    "AttentionNotHooked",
    "BackendError",
    "BackendUnavailable",
    "BadBackendOutput",
    "BugHunt",
    "BugHuntSummary",
    "Cancelled",
    "ClassMapMismatch",
    "Classifier",
    "Client",
    "ClusterRefused",
    "Cost",
    "CounterposeError",
    "DatasetEmpty",
    "DatasetInterface",
    "DatasetInterfaceSummary",
    "DatasetNotReady",
    "DeadlineExceeded",
    "DiskFailed",
    "EditType",
    "Estimate",
    "Forbidden",
    "ForeignOrigin",
    "FunctionGone",
    "Gate",
    "GateSummary",
    "GeneratedImage",
    "GeneratedImages",
    "HeadersTooLarge",
    "IdempotencyConflict",
    "IdempotencyInFlight",
    "ImageTooLarge",
    "ImageUndecodable",
    "ImagesOutsideSuite",
    "ImportRefused",
    "InternalError",
    "InvalidRequest",
    "LeaseLost",
    "LedgerDamaged",
    "MalformedRequest",
    "MethodNotAllowed",
    "ModelFormatRefused",
    "NotAcceptable",
    "NotFound",
    "NumericalFailure",
    "PayloadTooLarge",
    "PolicyRefused",
    "PromptTooLong",
    "QuotaExceeded",
    "RateLimited",
    "RegressionSet",
    "RequestError",
    "RequestTimeout",
    "ResourceExhausted",
    "RetryPolicy",
    "RunNotCancellable",
    "RunNotDeletable",
    "RunNotEnded",
    "RunNotResumable",
    "ShardUnreadable",
    "ShiftBenchmark",
    "ShiftBenchmarkSummary",
    "SignedUrlRefused",
    "StorageError",
    "StorageFull",
    "StressTest",
    "StressTestSummary",
    "Transfer",
    "TransferSummary",
    "Unauthorized",
    "UnknownDataset",
    "UnknownEditType",
    "UnknownModel",
    "UnsupportedMedia",
    "__version__",
    "errors",
    "log_to_mlflow",
    "log_to_trackio",
    "log_to_wandb",
    "push_results_to_hub",
    "push_to_hub",
]

# Under these names in the blocking half, and with "Async" before them in the other.
_TWICE = {
    "client": ("Client",),
    "images": ("GeneratedImage", "GeneratedImages"),
    **{kind.resource: (kind.title.title().replace(" ", ""),) for kind in _KINDS.values()},
}
_HOMES = {
    **{f"counterpose._sync.{module}": names for module, names in _TWICE.items()},
    **{
        f"counterpose._async.{module}": tuple(f"Async{name}" for name in names)
        for module, names in _TWICE.items()
    },
    "counterpose._hub.datasets": ("push_to_hub",),
    "counterpose._hub.results": ("push_results_to_hub",),
    "counterpose._python_function.model": ("Classifier",),
    "counterpose._retries": ("RetryPolicy",),
    "counterpose._trackers.mlflow": ("log_to_mlflow",),
    "counterpose._trackers.trackio": ("log_to_trackio",),
    "counterpose._trackers.wandb": ("log_to_wandb",),
    "counterpose_core.contract.adversarial_dataset_summary": ("AdversarialDatasetSummary",),
    "counterpose_core.contract.bug_hunt_summary": ("BugHuntSummary",),
    "counterpose_core.contract.dataset_interfaces": ("DatasetInterfaceSummary",),
    "counterpose_core.contract.gates": ("GateSummary", "RegressionSet"),
    "counterpose_core.contract.shift_benchmark_summary": ("ShiftBenchmarkSummary",),
    "counterpose_core.contract.stress_tests": ("StressTestSummary",),
    "counterpose_core.contract.transfers": ("TransferSummary",),
    "counterpose_core.types": ("Cost", "EditType", "Estimate"),
}
_elsewhere = {name for names in _HOMES.values() for name in names} | {"__version__"}
# The error tree is the rest.
_HOMES["counterpose_core"] = ("errors",)
_HOMES["counterpose_core.errors"] = tuple(sorted(set(__all__) - _elsewhere - {"errors"}))

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return list(__all__)
