"""The rule by which stays are counted, on a program of three files."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from evaluation.walk import Walk

FILES = {
    "walked_door": """
        import asyncio
        import walked_room as room

        async def enter(times):
            for _ in range(times):
                room.sit()
            return near() + await room.wait()

        def near():
            return sum(room.each())

        def told(call):
            return call()
    """,
    "walked_room": """
        import asyncio

        def sit():
            return stand()

        def stand():
            import walked_door
            return walked_door.near

        async def wait():
            await asyncio.sleep(0)
            return await rest()

        async def rest():
            await asyncio.sleep(0)
            return 1

        def each():
            yield 1
            yield 2
    """,
    "walked_fake": """
        import walked_room as room

        def fake():
            return room.sit()
    """,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("walked")


@pytest.fixture
def modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The program, in its own folder; the fake is in another one."""
    for name, text in FILES.items():
        place = folder / ("apart" if name == "walked_fake" else "product") / f"{name}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text("\n".join(line[8:] for line in text.splitlines()), encoding="utf-8")
        monkeypatch.syspath_prepend(str(place.parent))
    for name in FILES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return {name: importlib.import_module(name) for name in FILES}


@pytest.fixture
def walk(folder: Path) -> Walk:
    return Walk((folder / "product",), (folder / "apart",))


def seen(walk: Walk) -> dict[str, list[str]]:
    """The functions that enter each file."""
    return {
        Path(name).stem: sorted(each.co_name for each in callers) for name, callers in walk.callers.items()
    }


@pytest.mark.parametrize("times", [1, 50])
def test_a_function_that_calls_into_another_file_is_one_stay_in_a_loop_and_over_awaits(
    walk: Walk, modules: dict[str, ModuleType], times: int
) -> None:
    with walk.counting():
        assert asyncio.run(modules["walked_door"].enter(times)) == 4
    # What stays in its file is none, and neither is the first call.
    assert seen(walk) == {"walked_door": [], "walked_room": ["enter", "near"]}
    assert walk.stays == 2


def test_what_a_fake_calls_is_no_stay(walk: Walk, modules: dict[str, ModuleType]) -> None:
    with walk.counting():
        modules["walked_door"].told(modules["walked_fake"].fake)
    assert seen(walk) == {"walked_door": [], "walked_room": []}


def test_a_thread_that_starts_within_is_followed(walk: Walk, modules: dict[str, ModuleType]) -> None:
    with walk.counting():
        thread = threading.Thread(target=modules["walked_door"].near)
        thread.start()
        thread.join()
    assert seen(walk) == {"walked_door": [], "walked_room": ["near"]}


def test_of_several_blocks_the_longest_way_is_kept(walk: Walk, modules: dict[str, ModuleType]) -> None:
    door = modules["walked_door"]
    for call in (door.near, lambda: asyncio.run(door.enter(1)), door.near):
        with walk.counting():
            call()
    assert walk.stays == 2
