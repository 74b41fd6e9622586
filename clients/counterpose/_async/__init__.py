"""The client for asyncio programs, its runs and resources: a module per noun, imported on first use.

What is written here exists a second time in ``counterpose._sync``, for blocking programs: the script
``clients/blocking_half.py`` makes it from this.
"""

from typing import TYPE_CHECKING

from counterpose._lazy import lazily

if TYPE_CHECKING:
    from counterpose._async.adversarial_datasets import AsyncAdversarialDatasets
    from counterpose._async.bug_hunts import AsyncBugHunts
    from counterpose._async.dataset_interfaces import AsyncDatasetInterfaces
    from counterpose._async.datasets import AsyncDatasets
    from counterpose._async.gates import AsyncGates
    from counterpose._async.jobs import AsyncJobs
    from counterpose._async.listings import AsyncClassifiers, AsyncServices
    from counterpose._async.runs import AsyncRuns
    from counterpose._async.shift_benchmarks import AsyncShiftBenchmarks
    from counterpose._async.stress_tests import AsyncStressTests
    from counterpose._async.token_files import AsyncTokenFiles
    from counterpose._async.transfers import AsyncTransfers
    from counterpose._async.webhooks import AsyncWebhooks

__all__ = [
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
]

__getattr__ = lazily(
    __name__,
    {
        f"{__name__}.adversarial_datasets": ("AsyncAdversarialDatasets",),
        f"{__name__}.bug_hunts": ("AsyncBugHunts",),
        f"{__name__}.dataset_interfaces": ("AsyncDatasetInterfaces",),
        f"{__name__}.datasets": ("AsyncDatasets",),
        f"{__name__}.gates": ("AsyncGates",),
        f"{__name__}.jobs": ("AsyncJobs",),
        f"{__name__}.listings": ("AsyncClassifiers", "AsyncServices"),
        f"{__name__}.runs": ("AsyncRuns",),
        f"{__name__}.shift_benchmarks": ("AsyncShiftBenchmarks",),
        f"{__name__}.stress_tests": ("AsyncStressTests",),
        f"{__name__}.token_files": ("AsyncTokenFiles",),
        f"{__name__}.transfers": ("AsyncTransfers",),
        f"{__name__}.webhooks": ("AsyncWebhooks",),
    },
)
