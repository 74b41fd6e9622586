import pytest
from pydantic import ValidationError

from counterpose_core.contract.datasets import DatasetCreate
from counterpose_core.types import format_si


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        (0, "0 FLOP"),
        (999, "999 FLOP"),
        (1000, "1.00 kFLOP"),
        (99_960, "100 kFLOP"),
        (999_499, "999 kFLOP"),
        (999_500, "1.00 MFLOP"),
        (803_273_441_280, "803 GFLOP"),
        (43_690_000_000_000, "43.7 TFLOP"),
        (4 * 10**21, "4000 EFLOP"),
    ],
)
def test_amounts_are_written_with_three_digits_and_a_prefix(amount: int, written: str) -> None:
    assert format_si(amount, "FLOP") == written


@pytest.mark.fault("B41")
@pytest.mark.parametrize("name", ["CON", "nul", "aux.png", "Com1", "lpt9.tar.gz", "PRN.", "photos."])
def test_a_dataset_cannot_have_a_name_that_windows_reserves(name: str) -> None:
    with pytest.raises(ValidationError, match="Windows reserves"):
        DatasetCreate(name=name)


@pytest.mark.parametrize("name", ["console", "com10", "null", "a.con", "lpt", "com"])
def test_a_name_that_only_resembles_a_reserved_one_is_taken(name: str) -> None:
    assert DatasetCreate(name=name).name == name
