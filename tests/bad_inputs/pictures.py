"""B1 to B24: pictures and what carries them."""

from __future__ import annotations

_BAD_FILE = "test_a_bad_file_is_named_under_its_code_and_leaves_nothing_in_the_store"

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "B6": {
        "a PNG of 50,000 x 50,000 pixels": (
            f"{_BAD_FILE}[a PNG of 50,000 x 50,000]",
            "test_too_many_pixels_are_refused_before_decoding",
        ),
    },
}
LATER: dict[str, str] = {}
