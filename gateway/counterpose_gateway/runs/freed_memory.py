"""What a process that sums up runs does with memory that it has freed."""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3
_RETURNED_FROM = 128 * 1024


def return_freed_memory() -> None:
    """Have large arrays go back to the system when they are freed, where the allocator is glibc's.

    By default it keeps blocks of up to 32 MB for later, as soon as one of that size has been freed: between
    the steps of a large summary, a hundred megabytes that nothing uses.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _RETURNED_FROM)
