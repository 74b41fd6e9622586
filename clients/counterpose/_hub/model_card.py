"""Figures in a model's card: its metadata for programs, a table for readers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from counterpose._hub.figures import ACCURACY, Figure
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.plain_text import strip_invisible

TASK = "image-classification"
CLOSING = "<!-- counterpose end -->"
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

    @property
    def opening(self) -> str:
        """The comment before the section, by which a later evaluation on the same dataset finds it."""
        return f"<!-- counterpose {_NOT_OF_A_NAME.sub('-', self.dataset_type)} -->"

    def table(self) -> str:
        """Return the figures as a table, each with its interval and n."""
        rows = [
            f"| {_cell(figure.name)} | {figure.estimate:.3f} | {figure.low:.3f} to {figure.high:.3f} "
            f"| {figure.n} |"
            for figure in self.figures
        ]
        return "\n".join(["| figure | estimate | 95 % interval | n |", "| --- | --- | --- | --- |", *rows])

    def section(self) -> str:
        """Return the section of the card, between two comments."""
        images = f"`{self.dataset_repo}`" if self.dataset_repo else _cell(self.dataset)
        return (
            f"{self.opening}\n## Counterpose: {_cell(self.dataset)}\n\n"
            f"Counterfactual images tested {_cell(self.classifier)} in the {self.kind} `{self.run}`, dataset "
            f"{images}. The images are synthetic: read each accuracy beside its control, not alone.\n\n"
            f"{self.table()}\n{CLOSING}\n"
        )


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
    earlier = rf"{re.escape(evaluation.opening)}\n.*?{re.escape(CLOSING)}\n?"
    read.text, replaced = re.subn(earlier, lambda _: section, text, count=1, flags=re.DOTALL)
    if not replaced:
        read.text = text.rstrip("\n") + "\n\n" + section if text.strip() else "\n" + section
    return str(read)


def benchmark_entries(package: Any, evaluation: Evaluation) -> str:
    """Return the accuracies as the YAML that leaderboards of the dataset read."""
    entries = [
        package.EvalResultEntry(
            dataset_id=evaluation.dataset_repo,
            task_id=TASK,
            value=round(figure.estimate, 4),
            notes=f"{figure.name}: n={figure.n}, 95 % interval {figure.low:.3f} to {figure.high:.3f}; "
            f"Counterpose, run {evaluation.run}",
        )
        for figure in evaluation.figures
        if figure.metric == ACCURACY
    ]
    return str(package.utils.yaml_dump(package.eval_result_entries_to_yaml(entries)))


def _result(package: Any, evaluation: Evaluation, figure: Figure) -> Any:
    return package.EvalResult(
        task_type=TASK,
        dataset_type=evaluation.dataset_type,
        dataset_name=f"Counterpose, {evaluation.kind} on {evaluation.dataset}",
        metric_type=figure.metric,
        metric_name=figure.name,
        metric_value=round(figure.estimate, 4),
        metric_args={
            "n": figure.n,
            "low": round(figure.low, 4),
            "high": round(figure.high, 4),
            "run": evaluation.run,
        },
    )


def _put(known: list[Any], result: Any, replace: bool) -> None:
    """Add a result, or put it in the place of the one by the same name.

    Raises:
        InvalidRequest: there is one with another number, and it may not be replaced.
    """
    names = [(entry.unique_identifier, entry.metric_type, entry.metric_name) for entry in known]
    name = (result.unique_identifier, result.metric_type, result.metric_name)
    if name not in names:
        known.append(result)
        return
    before = known[names.index(name)].metric_value
    if before != result.metric_value and not replace:
        raise InvalidRequest(
            f"the card has {result.metric_name!r} on {result.dataset_type!r} as {before}, and "
            f"the run found {result.metric_value}: give replace=True to propose the new number instead"
        )
    known[names.index(name)] = result


def _cell(text: str) -> str:
    """Escape a text for a line of Markdown, so that it ends neither cell nor line nor comment."""
    return _MARKDOWN.sub(r"\\\1", strip_invisible(" ".join(text.split())))
