"""A run as on macOS: `sys.platform` says darwin, and what only Linux has is missing.

It shows that no path of the product depends on ``/proc``, on Linux's calls or on glibc. It is no Mac:
libraries that look at the system as they are imported have seen Linux.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

MISSING = Path("/nowhere/proc")
FOLDERS = (
    ("counterpose_processes.system", "PROC"),
    ("counterpose_services.models.weight_loading", "PROC"),
    ("counterpose_services.serving.engine_trial", "STATUS"),
)
"""Where modules name folders of Linux: they ask whether these exist, which no audit hook sees."""
READING = ("open", "os.listdir", "os.scandir")
CALLS = ("prctl", "mallopt")
LOOKS_AT_IMPORT = "psutil"
"""A library that would ask for its part for macOS, which is not installed here."""


class WithoutLinux:
    """Takes Linux away while a test runs."""

    def __init__(self) -> None:
        self.active = False
        with suppress(ImportError):
            importlib.import_module(LOOKS_AT_IMPORT)
        sys.addaudithook(self._refuse)

    def _refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in READING and str(arguments[0]).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(arguments[0]))
        if event == "ctypes.dlsym" and isinstance(arguments[0], ctypes.CDLL) and arguments[1] in CALLS:
            raise AttributeError(f"{arguments[1]}: symbol not found")

    def pytest_configure(self, config: pytest.Config) -> None:
        """Let threadpoolctl, which looks at the system at each call, miss the loader of macOS."""
        config.addinivalue_line("filterwarnings", "ignore:Could not find _dyld_image_count:RuntimeWarning")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """Take it away from the fixtures, which write down what a test reads."""
        with self._elsewhere():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Take it away from the test."""
        with self._elsewhere():
            return (yield)

    @contextmanager
    def _elsewhere(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "platform", "darwin")
            for module, constant in FOLDERS:
                # The services' modules need libraries that a test of the SDK does without.
                with suppress(ImportError):
                    patch.setattr(importlib.import_module(module), constant, MISSING)
            self.active = True
            try:
                yield
            finally:
                self.active = False
