"""The seeds of generated pictures: of class and place alone, so that shifts stand beside each other."""

from __future__ import annotations

from faultline_gateway.workflows.planning import derive_seed


def picture_seed(seed: int, class_name: str, place: int) -> int:
    """Return the seed of the ``place``-th picture of a class, below 2**63.

    The shift has no part in it (DI, section 6): base and shifts start from the same noise, and one picture
    can be made again without the others.
    """
    return derive_seed(seed, "picture", class_name, place)
