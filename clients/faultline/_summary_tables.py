"""Summaries as tables of a terminal: every figure with its interval and n."""

from __future__ import annotations

from faultline_core.contract.dataset_interfaces import DatasetInterfaceSummary, TokenResult
from faultline_core.contract.shift_benchmark_summary import PromptAccuracy, ShiftBenchmarkSummary
from faultline_core.types import Estimate

_NAME, _FIGURE = 24, 30


def interface_table(summary: DatasetInterfaceSummary) -> str:
    """A line for each class that is learned, then what is missing and what it took.

    Similarities are CLIP's cosines, from -1 to 1.
    """
    head = ("class", "pictures", "steps", "loss", "token", "class name", "real pictures")
    lines = [_line(*head)] if summary.tokens else []
    lines += [_line(name, *_of_token(token)) for name, token in summary.tokens.items()]
    lines += [f"missing {name}: {why}" for name, why in summary.missing.items()]
    return "\n".join([*lines, "", f"cost: {summary.cost}"])


def prompts_table(summary: ShiftBenchmarkSummary) -> str:
    """A line for each classifier, source and prompt: accuracy, and what prompt and name cost."""
    head = f"{'classifier':{_NAME}} {'source':12} {'prompt':36}"
    figures = " ".join(f"{name:>{_FIGURE}}" for name in ("accuracy", "drop from base", "name beside token"))
    lines = [f"{head} {figures}"] if summary.prompts else []
    lines += [_of_prompt(row) for row in summary.prompts]
    return "\n".join([*lines, "", f"cost: {summary.cost}", *summary.notes])


def _of_prompt(row: PromptAccuracy) -> str:
    figures = " ".join(f"{_figure(each):>{_FIGURE}}" for each in (row.accuracy, row.drop, row.beside_token))
    return f"{row.model:{_NAME}} {row.source:12} {row.prompt:36} {figures}"


def _of_token(token: TokenResult) -> tuple[str, ...]:
    fall = f"{token.losses[0]:.3f} to {token.losses[-1]:.3f}" if token.losses else "-"
    figures = (token.object_similarity, token.name_similarity, token.real_similarity)
    return (str(token.images), str(token.steps), fall, *map(_figure, figures))


def _figure(figure: Estimate | None) -> str:
    return "-" if figure is None else str(figure)


def _line(name: str, pictures: str, steps: str, loss: str, *figures: str) -> str:
    return f"{name:{_NAME}} {pictures:>8} {steps:>6} {loss:>16} " + " ".join(
        f"{figure:>{_FIGURE}}" for figure in figures
    )
