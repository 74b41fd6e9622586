"""The resources of a client: one module per noun, as in the URLs; each is imported on first use."""

from typing import TYPE_CHECKING

from counterpose._lazy import lazily

if TYPE_CHECKING:
    from counterpose.resources.adversarial_datasets import AdversarialDatasets, AsyncAdversarialDatasets
    from counterpose.resources.bug_hunts import AsyncBugHunts, BugHunts
    from counterpose.resources.dataset_interfaces import AsyncDatasetInterfaces, DatasetInterfaces
    from counterpose.resources.datasets import AsyncDatasets, Datasets
    from counterpose.resources.gates import AsyncGates, Gates
    from counterpose.resources.jobs import AsyncJobs, Jobs
    from counterpose.resources.listings import AsyncClassifiers, AsyncServices, Classifiers, Services
    from counterpose.resources.runs import AsyncRuns, Runs
    from counterpose.resources.shift_benchmarks import AsyncShiftBenchmarks, ShiftBenchmarks
    from counterpose.resources.stress_tests import AsyncStressTests, StressTests
    from counterpose.resources.token_files import AsyncTokenFiles, TokenFiles
    from counterpose.resources.transfers import AsyncTransfers, Transfers
    from counterpose.resources.webhooks import AsyncWebhooks, Webhooks

__all__ = [
    "AdversarialDatasets",
    "AsyncAdversarialDatasets",
    "AsyncBugHunts",
    "AsyncClassifiers",
    "AsyncDatasetInterfaces",
    "AsyncDatasets",
    "AsyncGates",
    "AsyncJobs",
    "AsyncRuns",
    "AsyncServices",
    "AsyncShiftBenchmarks",
    "AsyncStressTests",
    "AsyncTokenFiles",
    "AsyncTransfers",
    "AsyncWebhooks",
    "BugHunts",
    "Classifiers",
    "DatasetInterfaces",
    "Datasets",
    "Gates",
    "Jobs",
    "Runs",
    "Services",
    "ShiftBenchmarks",
    "StressTests",
    "TokenFiles",
    "Transfers",
    "Webhooks",
]

__getattr__ = lazily(
    __name__,
    {
        f"{__name__}.adversarial_datasets": ("AdversarialDatasets", "AsyncAdversarialDatasets"),
        f"{__name__}.bug_hunts": ("AsyncBugHunts", "BugHunts"),
        f"{__name__}.dataset_interfaces": ("AsyncDatasetInterfaces", "DatasetInterfaces"),
        f"{__name__}.datasets": ("AsyncDatasets", "Datasets"),
        f"{__name__}.gates": ("AsyncGates", "Gates"),
        f"{__name__}.jobs": ("AsyncJobs", "Jobs"),
        f"{__name__}.listings": ("AsyncClassifiers", "AsyncServices", "Classifiers", "Services"),
        f"{__name__}.runs": ("AsyncRuns", "Runs"),
        f"{__name__}.shift_benchmarks": ("AsyncShiftBenchmarks", "ShiftBenchmarks"),
        f"{__name__}.stress_tests": ("AsyncStressTests", "StressTests"),
        f"{__name__}.token_files": ("AsyncTokenFiles", "TokenFiles"),
        f"{__name__}.transfers": ("AsyncTransfers", "Transfers"),
        f"{__name__}.webhooks": ("AsyncWebhooks", "Webhooks"),
    },
)
