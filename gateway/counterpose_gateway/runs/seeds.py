"""Seeds of a run: one per name, derived from the run's seed, so that a new draw changes no other."""

from __future__ import annotations

from counterpose_core.blobs import cache_key


def derive_seed(seed: int, *names: str | int) -> int:
    """Derive a seed below 2**63 for a name from the run's seed."""
    # 63 bits: SQL's integers, and with them the contract's seeds, are signed.
    return int(cache_key(seed=seed, names=names)[:16], 16) >> 1


def image_seed(seed: int, class_name: str, place: int) -> int:
    """Return the seed of the ``place``-th image of a class, below 2**63.

    It does not depend on the shift (DI, section 6): base and shifts start from the same noise, and one
    image can be made again without the others.
    """
    # The word is hashed: another one would draw other images than those on record.
    return derive_seed(seed, "picture", class_name, place)
