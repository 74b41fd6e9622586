"""Datasets of the demos: their images are drawn or gathered in a process of its own, then registered."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpose._stack.environment import MODELS, MODELS_VARIABLE
from counterpose._stack.programs import GATEWAY, Programs
from counterpose._stack.readiness import last_lines
from counterpose_core.errors import BackendUnavailable, InvalidRequest
from counterpose_processes.program import Program

HELD_OUT = "counterpose_miniature.training.held_out"
WORLD = "counterpose_miniature.world"
NETWORKS, REAL_IMAGES = "counterpose_photographs.networks", "counterpose_photographs.images"
LOG = "datasets.log"


@dataclass(frozen=True)
class DemoDatasets:
    """Makes datasets below a state folder and registers them with its gateway."""

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

    def register_photographs(self, name: str) -> None:
        """Write networks of packages as `local:` classifiers, and register real images that they know.

        Raises:
            InvalidRequest: the services load `local:` classifiers from another folder.
            BackendUnavailable: the networks or images could not be had or registered.
        """
        models = self.state / MODELS
        if (chosen := self.environment[MODELS_VARIABLE]) != str(models):
            raise InvalidRequest(
                f"{MODELS_VARIABLE} is {chosen!r}, and this demo writes its networks to {str(models)!r}; "
                "leave the variable out"
            )
        networks = self.programs.module(NETWORKS, str(models))
        self._run("the networks were not written", networks)
        self._register(name, REAL_IMAGES, "--models", str(models))

    def _register(self, name: str, module: str, *options: str) -> None:
        folder = self.state / "datasets" / name
        if not folder.exists():
            # Made under another name and renamed: half a dataset must not pass for one.
            part = folder.with_name(f"{name}.part")
            shutil.rmtree(part, ignore_errors=True)
            self._run(f"dataset {name!r} was not made", self.programs.module(module, str(part), *options))
            part.rename(folder)
        register = self.programs.command(GATEWAY, "register-dataset", name, str(folder))
        self._run(f"dataset {name!r} was not registered", register)

    def _run(self, failure: str, command: Sequence[str]) -> None:
        log = self.state / LOG
        with Program(command, environment=self.environment, folder=self.state, log=log) as program:
            if code := program.wait():
                message = f"{failure}: {command[0]} ended with {code}; {str(log)!r} says:"
                raise BackendUnavailable(f"{message}\n{last_lines(program)}")
