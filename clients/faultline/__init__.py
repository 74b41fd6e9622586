"""Faultline finds where an image classifier breaks, with counterfactual images and paired statistics.

from faultline import Client

client = Client("http://127.0.0.1:8080")
run = client.stress_tests.create(dataset="demo", classifiers=["leaning-resnet"], seed=0)
print(run.wait().summary())
"""

from typing import TYPE_CHECKING

from faultline._lazy import lazily
from faultline._version import __version__

if TYPE_CHECKING:
    from faultline._adversarial_dataset_run import AdversarialDataset, AsyncAdversarialDataset
    from faultline._bug_hunt_run import AsyncBugHunt, BugHunt
    from faultline._client import AsyncClient, Client
    from faultline._dataset_interface_run import AsyncDatasetInterface, DatasetInterface
    from faultline._gate_run import AsyncGate, Gate
    from faultline._hub.datasets import push_to_hub
    from faultline._hub.results import push_results_to_hub
    from faultline._images import (
        AsyncGeneratedImage,
        AsyncGeneratedImages,
        GeneratedImage,
        GeneratedImages,
    )
    from faultline._python_function.model import Classifier
    from faultline._retries import RetryPolicy
    from faultline._shift_benchmark_run import AsyncShiftBenchmark, ShiftBenchmark
    from faultline._stress_test_run import AsyncStressTest, StressTest
    from faultline._trackers.mlflow import log_to_mlflow
    from faultline._trackers.trackio import log_to_trackio
    from faultline._trackers.wandb import log_to_wandb
    from faultline._transfer_run import AsyncTransfer, Transfer
    from faultline_core import errors
    from faultline_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
    from faultline_core.contract.bug_hunt_summary import BugHuntSummary
    from faultline_core.contract.dataset_interfaces import DatasetInterfaceSummary
    from faultline_core.contract.gates import GateSummary, RegressionSet
    from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
    from faultline_core.contract.stress_tests import StressTestSummary
    from faultline_core.contract.transfers import TransferSummary
    from faultline_core.errors import (
        ArtifactCorrupt,
        ArtifactMissing,
        AttentionNotHooked,
        BackendError,
        BackendUnavailable,
        BadBackendOutput,
        Cancelled,
        ClassMapMismatch,
        ClusterRefused,
        DatasetEmpty,
        DatasetNotReady,
        DeadlineExceeded,
        DiskFailed,
        FaultlineError,
        Forbidden,
        ForeignOrigin,
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
    from faultline_core.types import Cost, EditType, Estimate

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
    "DatasetEmpty",
    "DatasetInterface",
    "DatasetInterfaceSummary",
    "DatasetNotReady",
    "DeadlineExceeded",
    "DiskFailed",
    "EditType",
    "Estimate",
    "FaultlineError",
    "Forbidden",
    "ForeignOrigin",
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

_HOMES = {
    "faultline._adversarial_dataset_run": ("AdversarialDataset", "AsyncAdversarialDataset"),
    "faultline._bug_hunt_run": ("AsyncBugHunt", "BugHunt"),
    "faultline._client": ("AsyncClient", "Client"),
    "faultline._dataset_interface_run": ("AsyncDatasetInterface", "DatasetInterface"),
    "faultline._gate_run": ("AsyncGate", "Gate"),
    "faultline._hub.datasets": ("push_to_hub",),
    "faultline._hub.results": ("push_results_to_hub",),
    "faultline._images": ("AsyncGeneratedImage", "AsyncGeneratedImages", "GeneratedImage", "GeneratedImages"),
    "faultline._python_function.model": ("Classifier",),
    "faultline._retries": ("RetryPolicy",),
    "faultline._shift_benchmark_run": ("AsyncShiftBenchmark", "ShiftBenchmark"),
    "faultline._stress_test_run": ("AsyncStressTest", "StressTest"),
    "faultline._trackers.mlflow": ("log_to_mlflow",),
    "faultline._trackers.trackio": ("log_to_trackio",),
    "faultline._trackers.wandb": ("log_to_wandb",),
    "faultline._transfer_run": ("AsyncTransfer", "Transfer"),
    "faultline_core.contract.adversarial_dataset_summary": ("AdversarialDatasetSummary",),
    "faultline_core.contract.bug_hunt_summary": ("BugHuntSummary",),
    "faultline_core.contract.dataset_interfaces": ("DatasetInterfaceSummary",),
    "faultline_core.contract.gates": ("GateSummary", "RegressionSet"),
    "faultline_core.contract.shift_benchmark_summary": ("ShiftBenchmarkSummary",),
    "faultline_core.contract.stress_tests": ("StressTestSummary",),
    "faultline_core.contract.transfers": ("TransferSummary",),
    "faultline_core.types": ("Cost", "EditType", "Estimate"),
}
_elsewhere = {name for names in _HOMES.values() for name in names} | {"__version__"}
# The error tree is the rest.
_HOMES["faultline_core"] = ("errors",)
_HOMES["faultline_core.errors"] = tuple(sorted(set(__all__) - _elsewhere - {"errors"}))

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return list(__all__)
