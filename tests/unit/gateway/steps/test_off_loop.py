"""Work on many images leaves the event loop free; work on a few takes no change of threads."""

from __future__ import annotations

import threading

import pytest

from counterpose_gateway.steps.off_loop import FEW, off_loop


@pytest.mark.parametrize(("size", "elsewhere"), [(0, False), (FEW, False), (FEW + 1, True)])
async def test_only_work_on_many_images_is_done_in_another_thread(size: int, elsewhere: bool) -> None:
    worked = await off_loop(range(size), threading.get_ident)
    assert (worked != threading.get_ident()) is elsewhere


async def test_arguments_results_and_errors_pass_through() -> None:
    assert await off_loop(range(3), int, "ff", base=16) == 255
    with pytest.raises(ValueError, match="invalid"):
        await off_loop(range(FEW + 1), int, "x")
