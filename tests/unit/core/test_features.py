"""Feature vectors as recorded: half precision, little-endian, base64."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from pydantic import ValidationError

from counterpose_core.contract.features import FeatureVector


def test_a_unit_vector_round_trips_in_half_precision() -> None:
    vector = np.random.default_rng(1).standard_normal(512)
    vector /= np.linalg.norm(vector)
    recorded = FeatureVector.model_validate_json(FeatureVector.of(vector.tolist()).model_dump_json())
    assert recorded.width == 512
    np.testing.assert_allclose(recorded.numbers(), vector, rtol=2**-11, atol=2**-24)


def test_features_are_encoded_as_little_endian_half_floats() -> None:
    numbers = [0.5, -0.25, 0.1]
    expected = np.array(numbers, dtype="<f2").tobytes()
    assert base64.b64decode(FeatureVector.of(numbers).float16) == expected


@pytest.mark.parametrize("numbers", [[], [1e6], [float("inf"), 1e300]])
def test_values_beyond_half_precision_are_refused(numbers: list[float]) -> None:
    with pytest.raises(ValueError):
        FeatureVector.of(numbers)


@pytest.mark.parametrize("float16", ["", "AAAA", "no base64!"])
def test_bytes_of_the_wrong_length_are_refused(float16: str) -> None:
    with pytest.raises(ValidationError):
        FeatureVector(width=2, float16=float16)
