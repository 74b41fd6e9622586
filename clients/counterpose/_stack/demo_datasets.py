"""Datasets of rendered images: drawn by the miniature world in a process of its own, then registered."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpose._stack.programs import GATEWAY, Programs
from counterpose._stack.readiness import last_lines
from counterpose_core.errors import BackendUnavailable
from counterpose_processes.program import Program

HELD_OUT = "counterpose_miniature.training.held_out"
WORLD = "counterpose_miniature.world"
LOG = "datasets.log"


@dataclass(frozen=True)
class DemoDatasets:
    """Renders datasets below a state folder and registers them with its gateway."""

    state: Path
    programs: Programs
    environment: Mapping[str, str]

    def register_demo(self, name: str, per_class: int, classes: Sequence[str] = (), others: int = 0) -> None:
        """Render images like those the suite's classifiers were trained on; register them without captions.

        Args:
            name: name of the dataset.
            per_class: images of each class.
            classes: classes to render; empty for all.
            others: images of each class that is not among ``classes``.

        Raises:
            BackendUnavailable: the images could not be rendered or registered.
        """
        chosen = ("--classes", ",".join(classes), "--others", str(others)) if classes else ()
        self._register(name, HELD_OUT, "--per-class", str(per_class), *chosen)

    def register_user(self, name: str, per_class: int) -> None:
        """Render classes that look unlike what their names suggest, and register them.

        Raises:
            BackendUnavailable: the images could not be rendered or registered.
        """
        self._register(name, WORLD, "--distribution", "user", "--per-class", str(per_class))

    def _register(self, name: str, module: str, *options: str) -> None:
        folder = self.state / "datasets" / name
        if not folder.exists():
            # Rendered under another name and renamed: half a dataset must not pass for one.
            part = folder.with_name(f"{name}.part")
            shutil.rmtree(part, ignore_errors=True)
            self._run(f"dataset {name!r} was not rendered", self.programs.module(module, str(part), *options))
            part.rename(folder)
        register = self.programs.command(GATEWAY, "register-dataset", name, str(folder))
        self._run(f"dataset {name!r} was not registered", register)

    def _run(self, failure: str, command: Sequence[str]) -> None:
        log = self.state / LOG
        with Program(command, environment=self.environment, folder=self.state, log=log) as program:
            if code := program.wait():
                message = f"{failure}: {command[0]} ended with {code}; {str(log)!r} says:"
                raise BackendUnavailable(f"{message}\n{last_lines(program)}")
