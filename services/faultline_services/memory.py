"""How torch says that there is no memory left."""

from __future__ import annotations

from collections.abc import Callable

import torch

NO_ROOM = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Parts of the messages of plain RuntimeErrors that mean what torch.OutOfMemoryError means."""


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether ``error`` means that memory did not suffice, on a GPU or under a limit of the process."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(part in str(error) for part in NO_ROOM)


def fits(work: Callable[[], None]) -> bool:
    """Do ``work``; False when memory did not suffice. Any other error is raised."""
    try:
        work()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    # Behind the handler: until then the error's traceback holds all that the work had allocated.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return False
