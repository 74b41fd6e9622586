"""Work that may need more memory than there is, on a GPU or under a limit of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")

NO_ROOM = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Parts of the messages of plain RuntimeErrors that mean what torch.OutOfMemoryError means."""


class DoesNotFit(Exception):
    """Memory did not suffice; the work may fit in smaller parts."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if ``error`` means that memory did not suffice."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(part in str(error) for part in NO_ROOM)


def within_memory(work: Callable[[], Result]) -> Result:
    """Return what ``work`` returns.

    Raises:
        DoesNotFit: memory did not suffice; nothing of the attempt is held any more.
    """
    try:
        return work()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Behind the handler: until then the error's traceback holds all that the work had allocated.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    raise DoesNotFit
