"""The document, narrowed to names that the gateway knows: words drawn at random would find nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

from contract.live import WEBHOOK, Live
from fakes.ray_jobs_api import NAME

NOWHERE = "nowhere"


WORDS = {"type": "string", "pattern": "^[a-z]{3,9}$"}
"""Texts have rules that no schema can tell; `test_bad_texts` is about them."""
CLASSES = {"enum": ["sled", "plate"]}
DATASET = {"enum": ["demo", NOWHERE]}
CLASSIFIER = {"enum": ["steady", "leaning", NOWHERE]}
SHIFT = {"enum": ["in the snow", "at night"]}
OF_JOB = ("StressTestOfJob", "ShiftBenchmarkOfJob", "BugHuntOfJob", "GateOfJob")
NEW = {"type": "string", "pattern": "^new-[0-9a-f]{16}$"}


def with_known_ids(document: dict[str, Any], live: Live) -> dict[str, Any]:
    """Return the document with the parameters that name something known, or one thing that is not."""
    document = copy.deepcopy(document)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            # A key that was used with another body is refused, and short keys are drawn again and again.
            parameters = [
                each for each in operation.get("parameters", ()) if each["name"] != "idempotency-key"
            ]
            operation["parameters"] = parameters
            for parameter in parameters:
                _narrow(parameter, method, path, live)
    return document


def narrowed(document: dict[str, Any], live: Live) -> dict[str, Any]:
    """Return the document with bodies, too, that name what is known: the gateway should accept them."""
    document = with_known_ids(document, live)
    if not live.has_keys:
        # Without keys nobody needs a link, and none is made.
        del document["paths"]["/v1/signed-urls"]
    schemas = document["components"]["schemas"]
    choices = _choices(live)
    outer = {"DatasetChange", "SourcesAdd", "GivenSeeds", "TokenFilesAdd", *OF_JOB}
    models = {place.partition(".")[0] for place in choices} | outer
    # Copies: the answers have some of these models in them, too.
    for model in models:
        text = json.dumps(schemas[model])
        for other in models:
            text = text.replace(f'schemas/{other}"', f'schemas/Narrow{other}"')
        schemas[f"Narrow{model}"] = json.loads(text)
    for model in models:
        _spell_integers(schemas[f"Narrow{model}"])
    # Runs with images of other classes cannot share a dataset's name.
    (run,) = document["paths"]["/v1/adversarial-datasets/{run_id}:register"]["post"]["parameters"]
    run["schema"]["enum"] = [live.known.runs["adversarial-dataset"][0], NOWHERE]
    # What is being imported takes no uploads, and only a name that is unknown can be cancelled at any time.
    (imported,) = document["paths"]["/v1/datasets/{name}/import"]["post"]["parameters"]
    imported["schema"] = NEW
    # Of two, one may be empty where the other says so, and both the same.
    schemas["NarrowStressTestCreate"]["properties"]["interventions"]["maxItems"] = 1
    # Two files of one class are refused.
    schemas["NarrowTokenFilesAdd"]["properties"]["files"]["maxItems"] = 1
    # Without shifts of single classes, there must be some of all.
    schemas["NarrowShiftBenchmarkCreate"]["properties"]["shifts"]["anyOf"][0]["minItems"] = 1
    # By their defaults, the small budget would be too small.
    schemas["NarrowBugHuntCreate"]["required"] += ["held_out", "hypotheses", "winners"]
    schemas["NarrowAdversarialDatasetCreate"]["required"] += ["baseline"]
    for place, choice in choices.items():
        model, _, field = place.partition(".")
        _narrow_field(schemas[f"Narrow{model}"]["properties"], field, choice)
    for methods in document["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                model = content["schema"]["$ref"].rpartition("/")[2]
                if model in models:
                    content["schema"]["$ref"] = f"#/components/schemas/Narrow{model}"
    return document


def _narrow(parameter: dict[str, Any], method: str, path: str, live: Live) -> None:
    schema, kind = parameter["schema"], path.removeprefix("/v1/").partition("s/")[0]
    match parameter["name"]:
        case "job_id" | "ref" | "name" | "image_source" as name:
            schema["enum"] = _known_values(live)[name]
        case "webhook_id":
            # What other operations ask for must stay.
            schema["enum"] = [NOWHERE, *([] if method == "delete" else [live.known.webhook])]
        case "run_id" if method == "delete" or path.endswith(":register"):
            # What other operations ask for must stay, and a dataset of any valid name would be known to them.
            schema["enum"] = [NOWHERE]
        case "run_id" if path.endswith("/items"):
            # A cursor is of one run.
            schema["enum"] = [live.known.runs[kind][0]]
        case "run_id":
            schema["enum"] = [*live.known.runs[kind], NOWHERE]
        case "item_id":
            schema["enum"] = [live.known.item[kind], NOWHERE]
        case "shift":
            schema |= SHIFT
        case "after":
            schema["enum"] = [live.known.cursors[path]]


def _known_values(live: Live) -> dict[str, list[str]]:
    return {
        "job_id": [*live.known.jobs, NOWHERE],
        "ref": [live.known.image, "0" * 64],
        "name": ["uploads", NOWHERE],
        "image_source": ["token", "class-name"],
    }


def _narrow_field(fields: dict[str, Any], name: str, choices: dict[str, Any] | None) -> None:
    """Narrow a field, or the entries of its list or map, null or not; None leaves it out."""
    if choices is None:
        del fields[name]
        return
    for each in fields[name].get("anyOf", [fields[name]]):
        if each.get("type") == "array":
            each["items"] = choices
        elif each.get("type") != "null" and "const" not in each:
            each |= choices


def _spell_integers(part: Any) -> None:
    """Draw integers from a few: to a schema 7.0 is one, too, and the gateway wants 7."""
    if isinstance(part, dict):
        if part.get("type") == "integer":
            low, high = part["minimum"], part.get("maximum", part.get("exclusiveMaximum", 1) - 1)
            part["enum"] = sorted({low, min(low + 1, high), min(low + 7, high), high})
        for each in part.values():
            _spell_integers(each)
    elif isinstance(part, list):
        for each in part:
            _spell_integers(each)


def _choices(live: Live) -> dict[str, dict[str, Any] | None]:
    interfaces = live.known.runs["dataset-interface"]
    fooled = live.known.runs["adversarial-dataset"]
    return {
        "DatasetCreate.name": NEW,
        # The same name with other classes is refused.
        "DatasetCreate.classes": None,
        # The same name with another request is refused.
        "ImportCreate.url": {"enum": ["memory://shards/a.tar"]},
        "ImportCreate.layout": None,
        "ImportCreate.classes": None,
        "ImportCreate.split": None,
        "ImportCreate.image_column": None,
        "ImportCreate.label_column": None,
        "ImportCreate.revision": None,
        "SourceUpload.filename": WORDS,
        "SourceUpload.label": CLASSES,
        "SourceUpload.content_base64": {"enum": [live.image]},
        "SourceUpload.caption": WORDS,
        # A group is of one class.
        "SourceUpload.group": None,
        "StressTestCreate.dataset": DATASET,
        "StressTestCreate.classifiers": CLASSIFIER,
        # The other rules between two fields have tests of their own.
        "StressTestCreate.max_edits_per_image": {"enum": [1, 2]},
        "StressTestCreate.lance_r_edits_per_image": {"enum": [0, 1]},
        "StressTestCreate.functions": None,
        "ProofCreate.functions": None,
        "ShiftBenchmarkCreate.functions": None,
        "ShiftBenchmarkCreate.class_shifts": None,
        "ShiftBenchmarkCreate.scraped": None,
        "ShiftBenchmarkCreate.photographs": None,
        "ShiftBenchmarkCreate.image_sources": {"enum": ["token", "class-name"]},
        "ShiftBenchmarkCreate.base": {"enum": ["a photo of a <class>"]},
        "ShiftBenchmarkCreate.retrieval": {"enum": [NOWHERE]},
        "ShiftBenchmarkCreate.validation": DATASET,
        "StressTestCreate.exclude": {"enum": ["sled-0.png", "plate-1.png"]},
        "StressTestCreate.preset": {"enum": ["quick", "lance"]},
        "ProofCreate.dataset": DATASET,
        "Intervention.added": {"type": "string", "pattern": "^a[a-z]{3,9}$"},
        "Intervention.removed": {"type": "string", "pattern": "^r[a-z]{3,9}$"},
        "DatasetInterfaceCreate.dataset": DATASET,
        "DatasetInterfaceCreate.classes": CLASSES,
        "DatasetInterfaceCreate.token_init": WORDS,
        # What is published is not learned: the other settings would be refused.
        "DatasetInterfaceCreate.tokens": None,
        "TokenFile.class_name": CLASSES,
        "TokenFile.content_base64": {"enum": ["AAAA"]},
        "ImagesCreate.class_name": CLASSES,
        "ImagesCreate.shift": SHIFT,
        "ShiftBenchmarkCreate.interface": {"enum": [*interfaces, NOWHERE]},
        "ShiftBenchmarkCreate.classifiers": CLASSIFIER,
        "ShiftBenchmarkCreate.classes": CLASSES,
        "ShiftBenchmarkCreate.shifts": SHIFT,
        "ShiftThresholdSet.author": WORDS,
        # Every inspected image must be judged.
        "ShiftThresholdSet.shows": None,
        "ShiftThresholdSet.percentile": {"enum": [0, 5, 90]},
        "ShiftThresholdSet.image_source": {"enum": ["token", "class-name"]},
        "RunRename.name": WORDS,
        "SignedUrlCreate.path": {"enum": [f"/v1/artifacts/{live.known.image}.png"]},
        "JobCreate.cluster": {"enum": [NAME]},
        "WebhookCreate.url": {"enum": [WEBHOOK]},
        "BugHuntCreate.classifiers": CLASSIFIER,
        "BugHuntCreate.labels": {"enum": ["sled", "plate"]},
        "BugHuntCreate.classes": None,
        "BugHuntCreate.parents": None,
        "BugHuntCreate.criterion": None,
        "BugHuntCreate.sampling": None,
        "BugHuntCreate.functions": None,
        "BugHuntCreate.descriptions": None,
        "BugHuntCreate.photographs": None,
        # Shares must add up to 1 at most.
        "BugHuntCreate.mixture": None,
        "DescriptionsCreate.photographs": None,
        "DescriptionsCreate.functions": None,
        "DescriptionsCreate.descriptions": {"enum": ["a photo of a sled in the snow", "a sled at night"]},
        "DescriptionsCreate.images": {"enum": [8]},
        "BugHuntCreate.prompt": {"enum": ["a photo of a <class>"]},
        # A budget that is too small is refused: the first is enough for two labels of 63 images each, and
        # the second is more than a run may have here.
        "BugHuntCreate.held_out": {"enum": [8]},
        "BugHuntCreate.hypotheses": {"enum": [1]},
        "BugHuntCreate.winners": {"enum": [1]},
        "BugHuntCreate.refine": {"enum": [0, 1]},
        "BugHuntCreate.captions": {"enum": [2, 4]},
        "HuntBudget.images": {"enum": [130, 800]},
        "AdversarialDatasetCreate.classifiers": CLASSIFIER,
        "AdversarialDatasetCreate.classes": None,
        "AdversarialDatasetCreate.parents": None,
        "AdversarialDatasetCreate.criterion": None,
        "AdversarialDatasetCreate.functions": None,
        "AdversarialDatasetCreate.prompt": {"enum": ["a photo of a <class>"]},
        "AdversarialDatasetCreate.images": {"enum": [80, 100]},
        "AdversarialDatasetCreate.baseline": {"enum": [8]},
        "AdversarialDatasetCreate.reference": {"enum": ["demo", NOWHERE]},
        "DatasetSeeds.dataset": {"enum": ["demo", NOWHERE]},
        # The hunts here prove nothing, so that there is nothing to generate from.
        "HuntSeeds.run": {"enum": [NOWHERE]},
        "DatasetRegistration.name": {"type": "string", "pattern": "^taken-[0-9a-f]{16}$"},
        "TransferCreate.source": {"enum": [*fooled, NOWHERE]},
        "TransferCreate.classifiers": CLASSIFIER,
        "TransferCreate.criterion": None,
        "TransferCreate.functions": None,
        "RegressionSetOf.baseline": {"enum": [live.known.baseline, NOWHERE]},
        "GateCreate.baseline": {"enum": [live.known.baseline, NOWHERE]},
        "GateCreate.digest": None,
        "GateCreate.classifiers": CLASSIFIER,
        "GateCreate.incumbent": CLASSIFIER,
        "GateCreate.functions": None,
        # The text names it.
        "GivenCaption.label": {"enum": ["plate"]},
        "GivenCaption.text": {"enum": ["a photo of a plate on the grass"]},
    }
