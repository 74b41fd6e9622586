"""Figures in a model's card: its metadata for programs, a table for readers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from counterpose._hub.figures import Figure
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.plain_text import strip_invisible

TASK = "image-classification"
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~])")
_NOT_OF_A_NAME = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class Evaluation:
    """What one run found of one classifier; ``dataset_repo`` has its images on the Hub, if anything does."""

    run: str
    kind: str
    classifier: str
    dataset: str
    dataset_repo: str | None
    figures: list[Figure]

    @property
    def dataset_type(self) -> str:
        """The dataset as the Hub names it: its repository, or a name that stands for none there."""
        return self.dataset_repo or "counterpose-" + _NOT_OF_A_NAME.sub("-", self.dataset)

    def table(self) -> str:
        """Return the figures as a table, each with its interval and n."""
        rows = [
            f"| {_cell(each.name)} | {each.value.estimate:.3f} | {each.value.low:.3f} to "
            f"{each.value.high:.3f} | {each.value.n} |"
            for each in self.figures
        ]
        return "\n".join(["| figure | estimate | 95 % interval | n |", "| --- | --- | --- | --- |", *rows])

    def section(self) -> str:
        """Return the section of the card, between two comments by which it is found again."""
        images = f"`{self.dataset_repo}`" if self.dataset_repo else _cell(self.dataset)
        return (
            f"{self._opening}\n## Counterpose: {_cell(self.dataset)}\n\n"
            f"Counterfactual images tested {_cell(self.classifier)} in the {self.kind} `{self.run}`, dataset "
            f"{images}. The images are synthetic: read each accuracy beside its control, not alone.\n\n"
            f"{self.table()}\n{self._closing}\n"
        )

    @property
    def _opening(self) -> str:
        return f"<!-- counterpose {_NOT_OF_A_NAME.sub('-', self.dataset_type)} -->"

    @property
    def _closing(self) -> str:
        return "<!-- counterpose end -->"

    def replaces(self, text: str) -> re.Match[str] | None:
        """Return the section that an earlier evaluation on the same dataset left in a card."""
        opening, closing = re.escape(self._opening), re.escape(self._closing)
        return re.search(rf"{opening}\n.*?{closing}\n?", text, flags=re.DOTALL)


def amended(package: Any, card: str, name: str, evaluation: Evaluation, *, replace: bool) -> str:
    """Return a model's card with an evaluation in its metadata and its text.

    Args:
        package: the module huggingface_hub.
        card: the card as it is; empty where there is none.
        name: the model's, for a card that does not name it.
        evaluation: what to add.
        replace: whether figures of the same names may get other numbers.

    Raises:
        InvalidRequest: the card's metadata cannot be read, or has other numbers by the same names.
    """
    try:
        read = package.ModelCard(card)
    except Exception as error:
        # YAML's own errors, and ValueError for a model-index of another form.
        raise InvalidRequest(
            f"the metadata of the model's card cannot be read ({error}); mend the card first"
        ) from error
    if read.data.eval_results is None:
        read.data.eval_results = []
    if read.data.model_name is None:
        read.data.model_name = name
    for figure in evaluation.figures:
        _put(read.data.eval_results, _result(package, evaluation, figure), replace)
    section, text = evaluation.section(), read.text
    if earlier := evaluation.replaces(text):
        read.text = text[: earlier.start()] + section + text[earlier.end() :]
    else:
        read.text = text.rstrip("\n") + "\n\n" + section if text.strip() else "\n" + section
    return str(read)


def _result(package: Any, evaluation: Evaluation, figure: Figure) -> Any:
    value = figure.value
    return package.EvalResult(
        task_type=TASK,
        dataset_type=evaluation.dataset_type,
        dataset_name=f"Counterpose, {evaluation.kind} on {evaluation.dataset}",
        metric_type=figure.metric,
        metric_name=figure.name,
        metric_value=round(float(value.estimate or 0.0), 4),
        metric_args={
            "n": value.n,
            "low": round(float(value.low or 0.0), 4),
            "high": round(float(value.high or 0.0), 4),
            "run": evaluation.run,
        },
    )


def _put(known: list[Any], result: Any, replace: bool) -> None:
    """Add a result, or put it in the place of the one by the same name.

    Raises:
        InvalidRequest: there is one with another number, and it may not be replaced.
    """
    for place, each in enumerate(known):
        same = each.unique_identifier == result.unique_identifier
        if not same or (each.metric_type, each.metric_name) != (result.metric_type, result.metric_name):
            continue
        if each.metric_value != result.metric_value and not replace:
            raise InvalidRequest(
                f"the card has {result.metric_name!r} on {result.dataset_type!r} as {each.metric_value}, and "
                f"the run found {result.metric_value}: give replace=True to propose the new number instead"
            )
        known[place] = result
        return
    known.append(result)


def _cell(text: str) -> str:
    """Escape a text for a line of Markdown, so that it ends neither cell nor line nor comment."""
    return _MARKDOWN.sub(r"\\\1", strip_invisible(" ".join(text.split())))
