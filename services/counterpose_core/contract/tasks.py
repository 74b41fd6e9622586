"""What a run asks of its models, and what counts as right: the settings of a task, by its name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator

from counterpose_core.contract.base import ClientBody, ResponseBody, require_distinct, told_apart_by
from counterpose_core.contract.tokens import ClassName
from counterpose_core.field_descriptions import Described


class TaskSettings(Described):
    """What every task has: a name by which requests tell tasks apart."""

    name: str
    """Name of the task."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, json_schema_extra=told_apart_by("name")
    )


class ClassificationTask(TaskSettings):
    """One class of the dataset for each image; others may be as right (Beyer et al. 2020, ReaL labels)."""

    name: Literal["classification"] = "classification"
    """Name of the task."""
    acceptable: dict[ClassName, Annotated[list[ClassName], Field(min_length=1)]] = Field(
        default={}, max_length=10_000, exclude_if=lambda labels: not labels
    )
    """For a class of the dataset, the classes that are as right for its images, such as synonyms or parents:
    `{"notebook": ["laptop"]}`. An answer is right if it is any of them, and its score is the sum of their
    probabilities."""

    @field_validator("acceptable")
    @classmethod
    def _names_other_classes(cls, acceptable: dict[str, list[str]]) -> dict[str, list[str]]:
        for label, others in acceptable.items():
            if label in others:
                raise ValueError(
                    f"{label!r} is acceptable for its own images anyway; leave it out of its list"
                )
            require_distinct(others)
        return acceptable


AnyTask = ClassificationTask
"""The settings of one of the tasks; of several, a union that their names tell apart."""

CLASSIFICATION = ClassificationTask()
"""The task of a request that names none."""


def is_classification(task: TaskSettings) -> bool:
    """Whether a task is that of a request that names none."""
    return task == CLASSIFICATION


class ModelsOfTask(ClientBody):
    """A request whose models may be asked for something else than one class an image."""

    task: AnyTask = Field(
        default=CLASSIFICATION,
        # A run of before is stored as it was without this field.
        exclude_if=is_classification,
    )
    """What the models are asked, and what counts as right."""


class TaskFigures(ResponseBody):
    """What the figures of a run are called, as its task has it."""

    score: str
    """Name of the score, such as `p(true class)`."""
    hits: tuple[str, str]
    """Names of the two headline figures, such as `acc@1` and `acc@5`."""
    rule: str = Field(default="", exclude_if=lambda rule: not rule)
    """What counts as right, in a sentence; absent where the class of each image alone does."""

    def score_of(self, label: str) -> str:
        """Name of the score of one class's images: `p(plate)` where it is the probability of their class."""
        return f"p({label})" if self.score == CLASSIFICATION_FIGURES.score else self.score


CLASSIFICATION_FIGURES = TaskFigures(score="p(true class)", hits=("acc@1", "acc@5"))
"""What the figures of a classification are called."""
