"""Numbers as the report writes them: percentages, signed changes, durations, counts."""

from __future__ import annotations

from numpy import format_float_positional

from counterpose_core.types import Estimate

MINUS = "−"
NOTHING = "–"


def percent(value: float | None, digits: int = 0) -> str:
    """A share, or a difference of shares, in per cent; one that rounds to zero has no sign."""
    if value is None:
        return NOTHING
    text = f"{abs(100 * value):.{digits}f}"
    return f"{MINUS if value < 0 and float(text) else ''}{text} %"


def rare_percent(value: float | None) -> str:
    """A share in per cent with two significant digits, however small: 0.0012 %."""
    if value is None:
        return NOTHING
    return f"{format_float_positional(100 * value, precision=2, fractional=False, trim='-')} %"


def signed(value: float | None, digits: int = 3) -> str:
    """A change with its sign; a change that rounds to zero has none."""
    if value is None:
        return NOTHING
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0.0:
        return text
    return (MINUS if value < 0 else "+") + text


def decimal(value: float | None, digits: int = 1) -> str:
    """A number without a plus sign."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def share_interval(figure: Estimate) -> str:
    """The interval of a share, or of a difference of shares, in per cent: 7–11 %, −7 to 11 %."""
    if figure.low is None or figure.high is None:
        return NOTHING
    low, high = round(100 * figure.low), round(100 * figure.high)
    between = NOTHING if low >= 0 else " to "
    return f"{low}{between}{high} %".replace("-", MINUS)


def signed_interval(figure: Estimate, digits: int = 2) -> str:
    """The interval of a change."""
    if figure.low is None or figure.high is None:
        return NOTHING
    return f"{signed(figure.low, digits)} to {signed(figure.high, digits)}"


def points(value: float | None) -> str:
    """A difference of shares in percentage points."""
    return signed(None if value is None else 100 * value, 1)


def points_interval(figure: Estimate) -> str:
    """The interval of a difference of shares, in percentage points."""
    return NOTHING if figure.low is None else f"{points(figure.low)} to {points(figure.high)}"


def stopped(share: Estimate) -> int:
    """How many a filter stopped, from the share that passed it."""
    return 0 if share.estimate is None else round(share.n * (1.0 - share.estimate))


def p_value(value: float | None) -> str:
    """A p-value to three digits."""
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def duration(seconds: float) -> str:
    """Seconds as 4.2 s, 3 min 05 s or 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def counted(number: int, noun: str) -> str:
    """A count with its noun: 1 image, 2 images."""
    return f"{count(number)} {noun}{'s' if number != 1 else ''}"


def count(number: int) -> str:
    """A count with thin spaces between thousands."""
    return f"{number:,}".replace(",", " ")
