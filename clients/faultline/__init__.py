"""Faultline finds where an image classifier breaks, with counterfactual images and numbers that hold.

from faultline import Client

client = Client("http://127.0.0.1:8080")
run = client.stress_tests.create(dataset="demo", classifiers=["leaning-resnet"], seed=0)
print(run.wait().summary())
"""

from faultline._client import AsyncClient, Client
from faultline._dataset_interface_run import AsyncDatasetInterface, DatasetInterface
from faultline._generated import (
    AsyncGeneratedPicture,
    AsyncGeneratedPictures,
    GeneratedPicture,
    GeneratedPictures,
)
from faultline._retries import RetryPolicy
from faultline._shift_benchmark_run import AsyncShiftBenchmark, ShiftBenchmark
from faultline._stress_test_run import AsyncStressTest, StressTest
from faultline_core.contract.dataset_interfaces import DatasetInterfaceSummary
from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from faultline_core.contract.stress_tests import StressTestSummary
from faultline_core.errors import FaultlineError
from faultline_core.types import Cost, EditType, Estimate

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncDatasetInterface",
    "AsyncGeneratedPicture",
    "AsyncGeneratedPictures",
    "AsyncShiftBenchmark",
    "AsyncStressTest",
    "Client",
    "Cost",
    "DatasetInterface",
    "DatasetInterfaceSummary",
    "EditType",
    "Estimate",
    "FaultlineError",
    "GeneratedPicture",
    "GeneratedPictures",
    "RetryPolicy",
    "ShiftBenchmark",
    "ShiftBenchmarkSummary",
    "StressTest",
    "StressTestSummary",
]
