"""Options and arguments that several commands take."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from counterpose._cli import completion
from counterpose._options import label_map_of, thresholds_of
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.errors import InvalidRequest

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", envvar="COUNTERPOSE_URL", help="The gateway's address.")
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON and nothing else.")]
OneRun = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="The run's id, the beginning of it, or @last.", autocompletion=completion.runs
    ),
]
FindingNumber = Annotated[
    int, typer.Option("--finding", metavar="N", help="The finding's number in the run, from 1.")
]
InterfaceId = Annotated[
    str,
    typer.Argument(
        metavar="INTERFACE",
        help="The interface's run id, the beginning of it, or @last.",
        autocompletion=completion.runs,
    ),
]
ClassName = Annotated[str, typer.Argument(metavar="CLASS", help="One of the interface's classes.")]
Classifiers = Annotated[
    list[str],
    typer.Option(
        metavar="SPEC",
        help="A classifier: timm:resnet50, py:module:function, ... Repeatable.",
        autocompletion=completion.classifiers,
    ),
]
Captions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='Your captions for a folder, one JSON object per line: {"file_name": ..., "caption": ...}. '
        "The captioner describes every other image.",
    ),
]
Names = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Class names by subfolder: a JSON object, or a line for each with the subfolder, a space and "
        "the name; default: the folder's names.json. WordNet ids are called as ImageNet-1k does.",
    ),
]
Report = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the HTML report to this file.")]
Detach = Annotated[
    bool, typer.Option("--detach", metavar="", help="Print the run's id and exit; the run continues.")
]
MaxDrop = Annotated[
    float | None,
    typer.Option(
        metavar="DROP", help="Exit with 1 if an accuracy drop is proven to exceed this fraction, 0 to 1."
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", metavar="", help="With --max-drop: treat an inconclusive result as failed."),
]
ImageFolder = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Save the images in this folder.")
]
Dataset = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A dataset's name, or a folder with one subfolder per class.",
        autocompletion=completion.datasets,
    ),
]
ThresholdsGiven = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        metavar="NAME=VALUE",
        help="A threshold of a stress test, such as direction=0.3. Cosines from -1 to 1: direction, "
        "image_image, image_text, class_similarity, word_similarity; and closer=true or false, keep=2 for "
        "how many judges must say yes, without=NAME for one that has no vote. Repeatable.",
    ),
]


def read_label_map(file: str) -> dict[str, list[str]]:
    """Read a JSON object from classes to names of a classifier's classes: a file, or the object itself.

    Raises:
        InvalidRequest: it is not such an object.
    """
    document = _read_json(file, "label map")
    try:
        return label_map_of(document)
    except InvalidRequest as error:
        raise InvalidRequest(f"{file!r}: {error.detail}") from error


def read_task(text: str) -> dict[str, Any]:
    """Read a task's settings: a JSON object, a file of one, or the name of a task with none.

    Raises:
        InvalidRequest: it is not such an object.
    """
    is_name = re.fullmatch(r"[a-z-]+", text) is not None
    document = {"name": text} if is_name else _read_json(text, "task")
    if not isinstance(document, dict):
        raise InvalidRequest(
            f'the task {text!r} is no JSON object of settings, such as {{"name": "classification"}}'
        )
    return document


def _read_json(text: str, what: str) -> Any:
    try:
        is_written = text.lstrip().startswith("{")
        return json.loads(text if is_written else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise InvalidRequest(f"the {what} {text!r} cannot be read: {why}") from error


def thresholds_given(given: list[str] | None) -> Thresholds:
    """Read thresholds from ``name=value``.

    Raises:
        InvalidRequest: one of them has another form, name or range.
    """
    read: dict[str, float | bool | str] = {}
    for text in given or []:
        name, _, value = text.partition("=")
        if name in read:
            raise InvalidRequest(f"the threshold {name!r} is given twice")
        read[name] = value if name == "without" else _value(text, value)
    return thresholds_of(read)


def _value(text: str, value: str) -> float | bool:
    if value in ("true", "false"):
        return value == "true"
    try:
        return int(value) if value.isdecimal() else float(value)
    except ValueError as error:
        raise InvalidRequest(f"a threshold is NAME=VALUE, such as direction=0.3, not {text!r}") from error
