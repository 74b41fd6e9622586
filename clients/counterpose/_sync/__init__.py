# Generated from clients/counterpose/_async/__init__.py by clients/blocking_half.py; do not edit.
"""The client, its runs and resources: a module per noun, imported on first use.

What is written here exists a second time in ``counterpose._sync``, for blocking programs: the script
``clients/blocking_half.py`` makes it from this.
"""

from typing import TYPE_CHECKING

from counterpose._lazy import lazily

if TYPE_CHECKING:
    from counterpose._sync.adversarial_datasets import AdversarialDatasets
    from counterpose._sync.bug_hunts import BugHunts
    from counterpose._sync.dataset_interfaces import DatasetInterfaces
    from counterpose._sync.datasets import Datasets
    from counterpose._sync.gates import Gates
    from counterpose._sync.jobs import Jobs
    from counterpose._sync.listings import Classifiers, Services
    from counterpose._sync.runs import Runs
    from counterpose._sync.shift_benchmarks import ShiftBenchmarks
    from counterpose._sync.stress_tests import StressTests
    from counterpose._sync.token_files import TokenFiles
    from counterpose._sync.transfers import Transfers
    from counterpose._sync.webhooks import Webhooks

__all__ = [
    "AdversarialDatasets",
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
        f"{__name__}.adversarial_datasets": ("AdversarialDatasets",),
        f"{__name__}.bug_hunts": ("BugHunts",),
        f"{__name__}.dataset_interfaces": ("DatasetInterfaces",),
        f"{__name__}.datasets": ("Datasets",),
        f"{__name__}.gates": ("Gates",),
        f"{__name__}.jobs": ("Jobs",),
        f"{__name__}.listings": ("Classifiers", "Services"),
        f"{__name__}.runs": ("Runs",),
        f"{__name__}.shift_benchmarks": ("ShiftBenchmarks",),
        f"{__name__}.stress_tests": ("StressTests",),
        f"{__name__}.token_files": ("TokenFiles",),
        f"{__name__}.transfers": ("Transfers",),
        f"{__name__}.webhooks": ("Webhooks",),
    },
)
