import pytest

from faultline_core.types import format_si


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
