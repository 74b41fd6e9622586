"""Large amounts as text: three digits and an SI prefix."""

from __future__ import annotations

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def format_si(amount: int, unit: str) -> str:
    """Return an amount (>= 0) as text with an SI prefix: 803273441280 FLOP is ``803 GFLOP``."""
    value, step = float(amount), 0
    # 999.5 would be written as 1000.
    while value >= 999.5 and step < len(_PREFIXES) - 1:
        value, step = value / 1000, step + 1
    digits = 0 if step == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {_PREFIXES[step]}{unit}"
