"""The methods: one package each with the same functions, and the table where the gateway looks them up."""

from __future__ import annotations

from counterpose_core.errors import NotFound
from counterpose_core.kinds import unknown_kind
from counterpose_gateway.methods.adversarial_dataset.method import ADVERSARIAL_DATASET
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.methods.dataset_interface.method import DATASET_INTERFACE
from counterpose_gateway.methods.gate.method import GATE
from counterpose_gateway.methods.shift_benchmark.method import SHIFT_BENCHMARK
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.transfer.method import TRANSFER
from counterpose_gateway.runs.method import AnyMethod


class _Methods(dict[str, AnyMethod]):
    def __missing__(self, kind: str) -> AnyMethod:
        raise NotFound(unknown_kind(kind))


METHODS = _Methods(
    (method.kind, method)
    for method in (
        STRESS_TEST,
        DATASET_INTERFACE,
        SHIFT_BENCHMARK,
        BUG_HUNT,
        ADVERSARIAL_DATASET,
        TRANSFER,
        GATE,
    )
)
"""Every method by the kind of its runs: where routes and workers look it up, and `NotFound`."""
