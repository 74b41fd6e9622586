"""Label Studio's tasks: a counterfactual beside its source image, with the classifiers' answers.

``tasks.json`` is imported into a project with the interface of ``label_config.xml``. The tasks name images
below the document root of Label Studio's local storage, in a folder named as the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from counterpose_core.text.plain_text import no_formula
from counterpose_gateway.exports.images import ExportedImage
from counterpose_gateway.exports.inventory import Inventory
from counterpose_gateway.exports.layouts import Layout, write_image
from counterpose_gateway.exports.records import CHANGE_FIELDS, COLUMNS, SCORES, Answer

TASKS, CONFIG, DATA = "tasks.json", "label_config.xml", "data"
IMAGE, SOURCE = "image", "source"
SHOWS, SHOWN_BEFORE, QUALITY = "shows", "source_shows", "quality"
"""The names of the choices: what image and source image show, and what a reviewer says of the edit."""
QUALITIES = ("the change is there", "nothing else changed", "realistic", "ethical issue")
_LOCAL_FILES = "/data/local-files/?d="


def write_label_studio(folder: Path, images: Iterator[ExportedImage], inventory: Inventory, _: int) -> None:
    """Write images below ``data``, a task for each in ``tasks.json``, and the interface that shows them."""
    with (folder / TASKS).open("w", encoding="utf-8") as tasks:
        separator = "[\n"
        for image in images:
            write_image(folder / DATA, image)
            tasks.write(separator + json.dumps(_task(image), ensure_ascii=False, allow_nan=False))
            separator = ",\n"
        tasks.write("\n]\n")
    (folder / CONFIG).write_text(interface(inventory), encoding="utf-8")


def _task(image: ExportedImage) -> dict[str, Any]:
    told = {name: image.row[name] for name in COLUMNS}
    scores: Any = image.row.get(SCORES) or {}
    run, source = str(image.row["run"]), image.source
    data = {IMAGE: _url(run, image.path), **told, "scores": scores}
    names = dict.fromkeys(image.answers)
    if source is not None:
        change = source.told
        data |= {
            SOURCE: _url(run, source.path),
            "source_artifact": change.image,
            **{name: getattr(change, name) for name in CHANGE_FIELDS},
        }
        names |= dict.fromkeys(change.answers)
    before = {} if source is None else source.told.answers
    return {
        # Its answers come back as CSV, which people open in spreadsheets.
        "data": {name: no_formula(each) if isinstance(each, str) else each for name, each in data.items()},
        "predictions": [_prediction(image.path, name, image.answers, before) for name in names],
    }


def _url(run: str, path: str) -> str:
    return _LOCAL_FILES + quote(f"{run}/{DATA}/{path}")


def _prediction(
    path: str, classifier: str, after: Mapping[str, Answer], before: Mapping[str, Answer]
) -> dict[str, Any]:
    shown = [(SHOWS, IMAGE, after.get(classifier)), (SHOWN_BEFORE, SOURCE, before.get(classifier))]
    result = [
        {
            "id": hashlib.sha256(f"{path} {classifier} {name}".encode()).hexdigest()[:10],
            "from_name": name,
            "to_name": of,
            "type": "choices",
            "value": {"choices": [no_formula(answer.label)]},
            "score": answer.probability,
        }
        for name, of, answer in shown
        if answer is not None
    ]
    answer = after.get(classifier)
    score = {} if answer is None else {"score": answer.probability}
    return {"model_version": classifier, **score, "result": result}


def interface(inventory: Inventory) -> str:
    """Return the project's labelling interface: both images, what they show, and what a reviewer says."""
    classes = sorted(inventory.labels)
    pair = [
        '  <Header value="$changed"/>',
        '  <Text name="before" value="$caption"/>',
        f'  <Image name="{SOURCE}" value="${SOURCE}"/>',
        *_choices(SHOWN_BEFORE, SOURCE, classes),
    ]
    lines = [
        "<View>",
        *(pair if inventory.paired else []),
        '  <Text name="after" value="$prompt"/>',
        f'  <Image name="{IMAGE}" value="${IMAGE}"/>',
        *_choices(SHOWS, IMAGE, classes),
        *_choices(QUALITY, IMAGE, QUALITIES, several=True),
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def _choices(name: str, of: str, values: Any, *, several: bool = False) -> Iterator[str]:
    choice = "multiple" if several else "single"
    yield f'  <Choices name="{name}" toName="{of}" choice="{choice}">'
    for value in values:
        yield f"    <Choice value={quoteattr(no_formula(value))}/>"
    yield "  </Choices>"


LABEL_STUDIO = Layout(
    write=write_label_studio,
    files=(f"{DATA}/*/*/*.png",),
    reading="""\
# Name the folder as the run, and put it below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT.
import json, pathlib, label_studio_sdk

studio = label_studio_sdk.LabelStudio(base_url="http://127.0.0.1:8080", api_key="...")
config = pathlib.Path("FOLDER/label_config.xml").read_text()
project = studio.projects.create(title="Counterfactuals", label_config=config)
tasks = json.loads(pathlib.Path("FOLDER/tasks.json").read_text())
studio.projects.import_tasks(project.id, request=tasks)""",
)
