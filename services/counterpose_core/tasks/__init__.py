"""What a run asks of its models: each task turns a model's answer and an image's truth into a `Scored`.

| module | |
| --- | --- |
| `task` | what every task can do |
| `truth` | what an image shows |
| `probabilities` | an answer that is a probability for each class |
| `classification` | one right class an image, or several that are as right |

A task is a class here, its settings are one of `counterpose_core.contract.tasks`, and `TASKS` joins the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from counterpose_core.contract.tasks import CLASSIFICATION, AnyTask, TaskFigures, TaskSettings
from counterpose_core.tasks.classification import Classification, classification_of
from counterpose_core.tasks.task import Task
from counterpose_core.tasks.truth import Truth

TASKS: Mapping[str, type[Any]] = MappingProxyType({"classification": Classification})
"""Each task by the name of its settings."""

_RECORDED: TypeAdapter[AnyTask] = TypeAdapter(AnyTask)


def task_of(settings: TaskSettings, classes: Sequence[str]) -> Task:
    """Return the task of a run over the dataset's classes.

    Raises:
        InvalidRequest: its settings do not fit them.
    """
    task: Task = TASKS[settings.name](settings, classes)
    return task


def figures_of(settings: TaskSettings, labelled: int = 0) -> TaskFigures:
    """Return what the figures of a task are called, of a run with so many images with further labels."""
    figures: TaskFigures = TASKS[settings.name].figures(settings, labelled)
    return figures


def recorded_task(config: Mapping[str, Any]) -> AnyTask:
    """Return the task of a recorded configuration, whose request may name none.

    Raises:
        ValidationError: this version has no such task.
    """
    asked = config.get("task") or (config.get("request") or {}).get("task")
    return CLASSIFICATION if asked is None else _RECORDED.validate_python(asked)


__all__ = [
    "TASKS",
    "Classification",
    "Task",
    "Truth",
    "classification_of",
    "figures_of",
    "recorded_task",
    "task_of",
]
