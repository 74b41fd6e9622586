"""The document, narrowed to names that the gateway knows: words drawn at random would find nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

from contract.choices import NEW, NOWHERE, SHIFT, choices
from contract.live import Live
from counterpose_gateway.methods import METHODS
from fakes.openapi_document import kind_of, parameters_of

OF_JOB = ("StressTestOfJob", "ShiftBenchmarkOfJob", "BugHuntOfJob", "GateOfJob")


OF_KINDS = ("/summary", "/report", "/export", "/items", "/items/{item_id}")
"""What is asked of a run in other words by its kind: by thresholds, a cursor or an item."""
DROPPED = ("idempotency-key", "keep", "without")
"""Parameters that are not drawn; the last two depend on the judges of a run, whose tests have them."""


def with_known_ids(document: dict[str, Any], live: Live) -> dict[str, Any]:
    """Return the document with the parameters that name something known, or one thing that is not.

    What depends on the kind of a run is asked of stress tests there, and of a run of each other kind.
    """
    document = copy.deepcopy(document)
    paths = document["paths"]
    for path, methods in list(paths.items()):
        of_kinds = path.removeprefix("/v1/runs/{run_id}") in OF_KINDS
        for method, operation in methods.items():
            # A key that was used with another body is refused, and short keys are drawn again and again.
            given = [each for each in parameters_of(operation) if each["name"] not in DROPPED]
            operation["parameters"] = _of_kind(given, "stress-test") if of_kinds else given
            for kind, (run, *_) in live.known.runs.items() if of_kinds else ():
                own = [each for each in _of_kind(given, kind) if each["name"] != "run_id"]
                name = f"{operation['operationId']}_{kind}"
                copied = copy.deepcopy(operation | {"parameters": own, "operationId": name})
                _narrow(copied, method, path, kind, live)
                paths[path.replace("{run_id}", run)] = {method: copied}
            _narrow(operation, method, path, "stress-test" if of_kinds else kind_of(path), live)
    return document


def _of_kind(parameters: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the parameters that runs of a kind take."""
    others = {name for method in METHODS.values() for name in method.choices} - set(METHODS[kind].choices)
    return [each for each in parameters if each["name"] not in others]


def narrowed(document: dict[str, Any], live: Live) -> dict[str, Any]:
    """Return the document with bodies, too, that name what is known: the gateway should accept them."""
    document = with_known_ids(document, live)
    if not live.has_keys:
        # Without keys nobody needs a link, and none is made.
        del document["paths"]["/v1/signed-urls"]
    schemas = document["components"]["schemas"]
    chosen = choices(live)
    chosen |= _of_questions(chosen)
    outer = {"DatasetChange", "SourcesAdd", "GivenSeeds", "TokenFilesAdd", "RunResume", *OF_JOB}
    models = {place.partition(".")[0] for place in chosen} | outer
    # Copies: the answers have some of these models in them, too.
    for model in models:
        text = json.dumps(_spelled_out(schemas[model], schemas))
        for other in models:
            text = text.replace(f'schemas/{other}"', f'schemas/Narrow{other}"')
        schemas[f"Narrow{model}"] = json.loads(text)
    for model in models:
        _spell_integers(schemas[f"Narrow{model}"])
    # Runs with images of other classes cannot share a dataset's name.
    (run,) = document["paths"]["/v1/runs/{run_id}/register"]["post"]["parameters"]
    run["schema"]["enum"] = [live.known.runs["adversarial-dataset"][0], NOWHERE]
    # What is being imported takes no uploads, and only a name that is unknown can be cancelled at any time.
    (imported,) = document["paths"]["/v1/datasets/{name}/import"]["post"]["parameters"]
    imported["schema"] = NEW
    # Of two, one may be empty where the other says so, and both the same.
    schemas["NarrowStressTestCreate"]["properties"]["interventions"]["maxItems"] = 1
    schemas["NarrowStressTestQuestion"]["properties"]["interventions"]["maxItems"] = 1
    _without_own_names(schemas, models)
    # Two files of one class are refused.
    schemas["NarrowTokenFilesAdd"]["properties"]["files"]["maxItems"] = 1
    # Without shifts of single classes, there must be some of all.
    schemas["NarrowShiftBenchmarkCreate"]["properties"]["shifts"]["anyOf"][0]["minItems"] = 1
    # By their defaults, the small budget would be too small.
    schemas["NarrowBugHuntCreate"]["required"] += ["held_out", "hypotheses", "winners"]
    schemas["NarrowBugHuntQuestion"].setdefault("required", []).extend(["held_out", "hypotheses", "winners"])
    schemas["NarrowAdversarialDatasetCreate"]["required"] += ["baseline"]
    for place, choice in chosen.items():
        model, _, field = place.partition(".")
        _narrow_field(schemas[f"Narrow{model}"]["properties"], field, choice)
    _name_bodies(document, models)
    return document


def _spelled_out(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with what it takes from others: the question about a body, and types of fields."""
    whole = dict(schema)
    if "allOf" in whole:
        question, own = whole.pop("allOf")
        question = schemas[question["$ref"].rpartition("/")[2]]
        whole = question | whole | {"required": question["required"] + own["required"]}
        whole["properties"] = question["properties"] | own["properties"]
    fields = {}
    for name, field in whole.get("properties", {}).items():
        type = schemas.get(field.get("$ref", "").rpartition("/")[2], {"properties": {}})
        own = {key: value for key, value in field.items() if key != "$ref"}
        fields[name] = field if "properties" in type else type | own
    return whole | ({"properties": fields} if fields else {})


def _of_questions(chosen: dict[str, Any]) -> dict[str, Any]:
    """The choices of requests for estimates, which refuse what their runs would refuse."""
    creates = ("StressTestCreate.", "BugHuntCreate.")
    return {
        place.replace("Create.", "Question."): choice
        for place, choice in chosen.items()
        if place.startswith(creates)
    }


def _without_own_names(schemas: dict[str, Any], models: set[str]) -> None:
    """Leave out what is keyed by the request's own names, which a schema cannot say."""
    for model in models:
        for field in ("label_map", "function_specs", *(("functions",) if model == "RunResume" else ())):
            if field in schemas[f"Narrow{model}"].get("properties", {}):
                schemas[f"Narrow{model}"]["properties"][field]["maxProperties"] = 0


def _name_bodies(document: dict[str, Any], models: set[str]) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                # A body that may be left out has a choice in its place.
                for schema in content["schema"].get("anyOf", [content["schema"]]):
                    model = schema.get("$ref", "").rpartition("/")[2]
                    if model in models:
                        schema["$ref"] = f"#/components/schemas/Narrow{model}"


def _narrow(operation: dict[str, Any], method: str, path: str, kind: str | None, live: Live) -> None:
    """Narrow the parameters of what is asked of runs of a kind, or of all runs if None."""
    runs = [run for of, ids in live.known.runs.items() if kind in (None, of) for run in ids]
    for parameter in operation["parameters"]:
        schema = parameter["schema"]
        match parameter["name"]:
            case "job_id" | "ref" | "name" | "image_source" as name:
                schema["enum"] = _known_values(live)[name]
            case "webhook_id":
                # What other operations ask for must stay.
                schema["enum"] = [NOWHERE, *([] if method == "delete" else [live.known.webhook])]
            case "run_id" if method == "delete" or path.endswith("/register"):
                # What other operations ask for must stay, and a dataset of any valid name would be known.
                schema["enum"] = [NOWHERE]
            case "run_id" if path.endswith("/items"):
                # A cursor is of one run.
                schema["enum"] = runs[:1]
            case "run_id":
                schema["enum"] = [*runs, NOWHERE]
            case "item_id":
                assert kind is not None
                schema["enum"] = [live.known.item[kind], NOWHERE]
            case "shift":
                schema |= SHIFT
            case "after":
                schema["enum"] = [live.known.cursors[path.replace("run_id", kind or "")]]


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
        if "array" in each.get("type", ()):
            each["items"] = choices
        elif each.get("type") != "null" and "const" not in each:
            each |= choices


def _spell_integers(part: Any) -> None:
    """Draw integers from a few: to a schema 7.0 is one, too, and the gateway wants 7."""
    if isinstance(part, dict):
        if "integer" in (types := part.get("type", ())):
            low, high = part["minimum"], part.get("maximum", part.get("exclusiveMaximum", 1) - 1)
            part["enum"] = sorted({low, min(low + 1, high), min(low + 7, high), high})
            part["enum"] += [None] if "null" in types else []
        for each in part.values():
            _spell_integers(each)
    elif isinstance(part, list):
        for each in part:
            _spell_integers(each)
