"""Which process runs which test files, by their measured seconds; tests of the running stack come last."""

from __future__ import annotations

import fcntl
import json
import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

import pytest

DURATIONS = Path(__file__).with_name("durations.json")
STACK = "running_stack"


def parts(
    files: Iterable[str], stack: Iterable[str], seconds: Mapping[str, float], count: int
) -> list[set[str]]:
    """Split files into parts that take equally long; those of ``stack`` stay together.

    The longest goes first, to the part with the least so far. A file that nobody measured takes the mean.
    """
    whole = frozenset(stack)
    mean = sum(seconds.values()) / len(seconds) if seconds else 1.0
    blocks = [frozenset((file,)) for file in sorted(files) if file not in whole]
    taken = {block: sum(seconds.get(file, mean) for file in block) for block in (whole, *blocks)}
    split: list[set[str]] = [set() for _ in range(count)]
    load = [0.0] * count
    for block in sorted(taken, key=taken.__getitem__, reverse=True):
        least = load.index(min(load))
        split[least] |= block
        load[least] += taken[block]
    return split


class Parts:
    """Ignores the files of other parts before they are imported, and writes down what each file took."""

    def __init__(self, part: str | None, store: Path | None) -> None:
        self.number, self.count = (int(word) for word in (part or "1/1").split("/"))
        self.store = store
        self.chosen: set[str] | None = None
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Leave out a file of another part."""
        if self.count == 1 or not collection_path.match("test_*.py"):
            return None
        if self.chosen is None:
            self.chosen = self.choose(config)
        return True if name(collection_path, config) not in self.chosen else None

    def choose(self, config: pytest.Config) -> set[str]:
        """The files of this process, of all below the folders that the command line names."""
        folders = [config.invocation_params.dir / argument for argument in config.args]
        files = {name(path, config): path for folder in folders for path in folder.rglob("test_*.py")}
        stack = [file for file, path in files.items() if names_stack(path)]
        return parts(files, stack, durations(), self.count)[self.number - 1]

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Mark what uses the running stack, and let it come last: a stack that runs slows down the others."""
        for item in items:
            if STACK in getattr(item, "fixturenames", ()):
                item.add_marker("stack")
                if self.count > 1 and not names_stack(item.path):
                    raise pytest.UsageError(f"{item.nodeid}: a file that uses the stack must name {STACK}")
        yield
        items.sort(key=lambda item: item.get_closest_marker("stack") is not None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test's seconds to its file's."""
        self.seconds[report.nodeid.split("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Put the files' seconds beside those of other processes."""
        if self.store is None:
            return
        with self.store.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            others = json.loads(file.read() or "{}")
            merged = {**others, **{each: round(took, 1) for each, took in self.seconds.items()}}
            file.truncate(0)
            file.write(json.dumps(merged, indent=1, sort_keys=True) + "\n")


def names_stack(path: Path) -> bool:
    """Whether a file is one of the stack's: known before anything is imported."""
    return re.search(rf"\b{STACK}\b", path.read_text(encoding="utf-8")) is not None


def name(path: Path, config: pytest.Config) -> str:
    """A file as node ids name it."""
    return path.relative_to(config.rootpath).as_posix()


def durations() -> dict[str, float]:
    """The seconds that each file took when they were last measured."""
    measured: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
    return measured
