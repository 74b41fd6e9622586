"""What nobody tells of a benchmark's classifiers, so that a group without them is not taken for a whole."""

from __future__ import annotations

from typing import get_args

from faultline_core.contract.classifiers import ClassifierTrait
from faultline_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from faultline_gateway.workflows.some_names import some


def unknown_traits(config: ShiftBenchmarkConfig) -> list[str]:
    """A note that names the classifiers of which a trait is not known, or nothing where all are."""
    told: list[str] = []
    for trait in get_args(ClassifierTrait):
        names = [
            name
            for name in config.request.classifiers
            if (described := config.zoo.get(name)) is None or described.trait(trait) is None
        ]
        if names:
            told.append(f"{trait} of {some(names)}")
    return [f"not known, so these are in no group by it: {'; '.join(told)}"] if told else []
