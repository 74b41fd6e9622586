"""Counterpose finds where an image classifier breaks, with counterfactual images and paired statistics.

from counterpose import Client

client = Client("http://127.0.0.1:8080")
run = client.stress_tests.create(dataset="demo", classifiers=["leaning-resnet"], seed=0)
print(run.wait().summary())
"""

from typing import TYPE_CHECKING

from counterpose._lazy import lazily
from counterpose._version import __version__ as __version__
from counterpose_core import errors as errors
from counterpose_core.kinds import KINDS as _KINDS

if TYPE_CHECKING:
    from counterpose._async.adversarial_datasets import AsyncAdversarialDataset as AsyncAdversarialDataset
    from counterpose._async.bug_hunts import AsyncBugHunt as AsyncBugHunt
    from counterpose._async.client import AsyncClient as AsyncClient
    from counterpose._async.dataset_interfaces import AsyncDatasetInterface as AsyncDatasetInterface
    from counterpose._async.gates import AsyncGate as AsyncGate
    from counterpose._async.images import AsyncGeneratedImage as AsyncGeneratedImage
    from counterpose._async.images import AsyncGeneratedImages as AsyncGeneratedImages
    from counterpose._async.shift_benchmarks import AsyncShiftBenchmark as AsyncShiftBenchmark
    from counterpose._async.stress_tests import AsyncStressTest as AsyncStressTest
    from counterpose._async.transfers import AsyncTransfer as AsyncTransfer
    from counterpose._datasets.own_editor import make_pairs as make_pairs
    from counterpose._editor_comparison import EditorComparison as EditorComparison
    from counterpose._hub.datasets import push_to_hub as push_to_hub
    from counterpose._hub.results import push_results_to_hub as push_results_to_hub
    from counterpose._python_function.model import Classifier as Classifier
    from counterpose._retries import RetryPolicy as RetryPolicy
    from counterpose._sync.adversarial_datasets import AdversarialDataset as AdversarialDataset
    from counterpose._sync.bug_hunts import BugHunt as BugHunt
    from counterpose._sync.client import Client as Client
    from counterpose._sync.dataset_interfaces import DatasetInterface as DatasetInterface
    from counterpose._sync.gates import Gate as Gate
    from counterpose._sync.images import GeneratedImage as GeneratedImage
    from counterpose._sync.images import GeneratedImages as GeneratedImages
    from counterpose._sync.shift_benchmarks import ShiftBenchmark as ShiftBenchmark
    from counterpose._sync.stress_tests import StressTest as StressTest
    from counterpose._sync.transfers import Transfer as Transfer
    from counterpose._trackers.mlflow import log_to_mlflow as log_to_mlflow
    from counterpose._trackers.trackio import log_to_trackio as log_to_trackio
    from counterpose._trackers.wandb import log_to_wandb as log_to_wandb
    from counterpose_core.contract.adversarial_dataset_summary import (
        AdversarialDatasetSummary as AdversarialDatasetSummary,
    )
    from counterpose_core.contract.bug_hunt_summary import BugHuntSummary as BugHuntSummary
    from counterpose_core.contract.dataset_interfaces import (
        DatasetInterfaceSummary as DatasetInterfaceSummary,
    )
    from counterpose_core.contract.gates import GateSummary as GateSummary
    from counterpose_core.contract.gates import RegressionSet as RegressionSet
    from counterpose_core.contract.shift_benchmark_summary import (
        ShiftBenchmarkSummary as ShiftBenchmarkSummary,
    )
    from counterpose_core.contract.stress_tests import StressTestSummary as StressTestSummary
    from counterpose_core.contract.transfers import TransferSummary as TransferSummary
    from counterpose_core.errors import AnswerOffList as AnswerOffList
    from counterpose_core.errors import AnswerRefused as AnswerRefused
    from counterpose_core.errors import AnswerUnreadable as AnswerUnreadable
    from counterpose_core.errors import ArtifactCorrupt as ArtifactCorrupt
    from counterpose_core.errors import ArtifactMissing as ArtifactMissing
    from counterpose_core.errors import AttentionNotHooked as AttentionNotHooked
    from counterpose_core.errors import BackendError as BackendError
    from counterpose_core.errors import BackendUnavailable as BackendUnavailable
    from counterpose_core.errors import BadBackendOutput as BadBackendOutput
    from counterpose_core.errors import BudgetSpent as BudgetSpent
    from counterpose_core.errors import Cancelled as Cancelled
    from counterpose_core.errors import ClassMapMismatch as ClassMapMismatch
    from counterpose_core.errors import ClusterRefused as ClusterRefused
    from counterpose_core.errors import CounterposeError as CounterposeError
    from counterpose_core.errors import DatasetEmpty as DatasetEmpty
    from counterpose_core.errors import DatasetNotReady as DatasetNotReady
    from counterpose_core.errors import DeadlineExceeded as DeadlineExceeded
    from counterpose_core.errors import DiskFailed as DiskFailed
    from counterpose_core.errors import Forbidden as Forbidden
    from counterpose_core.errors import ForeignOrigin as ForeignOrigin
    from counterpose_core.errors import FunctionGone as FunctionGone
    from counterpose_core.errors import HeadersTooLarge as HeadersTooLarge
    from counterpose_core.errors import IdempotencyConflict as IdempotencyConflict
    from counterpose_core.errors import IdempotencyInFlight as IdempotencyInFlight
    from counterpose_core.errors import ImagesOutsideSuite as ImagesOutsideSuite
    from counterpose_core.errors import ImageTooLarge as ImageTooLarge
    from counterpose_core.errors import ImageUndecodable as ImageUndecodable
    from counterpose_core.errors import ImportRefused as ImportRefused
    from counterpose_core.errors import InternalError as InternalError
    from counterpose_core.errors import InvalidRequest as InvalidRequest
    from counterpose_core.errors import LeaseLost as LeaseLost
    from counterpose_core.errors import LedgerDamaged as LedgerDamaged
    from counterpose_core.errors import LedgerMismatch as LedgerMismatch
    from counterpose_core.errors import MalformedRequest as MalformedRequest
    from counterpose_core.errors import MethodNotAllowed as MethodNotAllowed
    from counterpose_core.errors import ModelFormatRefused as ModelFormatRefused
    from counterpose_core.errors import NoLabel as NoLabel
    from counterpose_core.errors import NotAcceptable as NotAcceptable
    from counterpose_core.errors import NotFound as NotFound
    from counterpose_core.errors import NumericalFailure as NumericalFailure
    from counterpose_core.errors import PayloadTooLarge as PayloadTooLarge
    from counterpose_core.errors import PolicyRefused as PolicyRefused
    from counterpose_core.errors import PriceMissing as PriceMissing
    from counterpose_core.errors import PromptTooLong as PromptTooLong
    from counterpose_core.errors import QuotaExceeded as QuotaExceeded
    from counterpose_core.errors import RateLimited as RateLimited
    from counterpose_core.errors import RequestError as RequestError
    from counterpose_core.errors import RequestTimeout as RequestTimeout
    from counterpose_core.errors import ResourceExhausted as ResourceExhausted
    from counterpose_core.errors import RunNotCancellable as RunNotCancellable
    from counterpose_core.errors import RunNotDeletable as RunNotDeletable
    from counterpose_core.errors import RunNotEnded as RunNotEnded
    from counterpose_core.errors import RunNotResumable as RunNotResumable
    from counterpose_core.errors import ShardUnreadable as ShardUnreadable
    from counterpose_core.errors import SignedUrlRefused as SignedUrlRefused
    from counterpose_core.errors import StorageError as StorageError
    from counterpose_core.errors import StorageFull as StorageFull
    from counterpose_core.errors import Unauthorized as Unauthorized
    from counterpose_core.errors import UnknownDataset as UnknownDataset
    from counterpose_core.errors import UnknownEditType as UnknownEditType
    from counterpose_core.errors import UnknownModel as UnknownModel
    from counterpose_core.errors import UnsupportedMedia as UnsupportedMedia
    from counterpose_core.types import Cost as Cost
    from counterpose_core.types import EditType as EditType
    from counterpose_core.types import Estimate as Estimate

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
    "counterpose._datasets.own_editor": ("make_pairs",),
    "counterpose._editor_comparison": ("EditorComparison",),
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
_HOMES["counterpose_core.errors"] = tuple(
    name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, errors.CounterposeError)
)
__all__ = sorted({name for names in _HOMES.values() for name in names} | {"__version__", "errors"})

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
