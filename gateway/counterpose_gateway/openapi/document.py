"""Completes the document that FastAPI writes, so that it promises what the gateway does and no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fastapi.routing import APIRoute

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, FieldProblem, Problem
from counterpose_gateway.openapi.problems import HEALTH, OF_PLANNING, problems_of

Document = dict[str, Any]
_Links = dict[str, dict[str, Any]]

CODES = "x-problem-codes"
"""Extension of an operation, and of the answers that it refers to: the codes of the problems it may have."""
_UNUSED = ("HTTPValidationError", "ValidationError")
"""FastAPI's own bodies of 422, which no answer here has."""
_ONE_RUN = "/v1/runs/{run_id}"
_CREATED = "CreatedRun"
"""The answer to what creates a run, with links to all that is asked of one."""
_SCHEMA_REF = "#/components/schemas/{model}"
_PLANNING = set(OF_PLANNING.split())
_OF_FIELD = frozenset({"description", "default"})
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SHARED = {
    "Classifiers": "TransferCreate.classifiers",
    "CosineOrNull": "Thresholds.direction",
    "CountByName": "AdversarialDatasetSummary.dropped",
    "Criterion": "FailureRate.criterion",
    "DatasetName": "DatasetCreate.name",
    "EditType": "Condition.edit_type",
    "EstimateOrNull": "Bug.mentions",
    "FailureOrNull": "GateSummary.failure",
    "FeaturesOrNull": "ItemResult.image_features",
    "FunctionSpecs": "StressTestQuestion.function_specs",
    "Functions": "GateCreate.functions",
    "IntegerOrNull": "ClassifierBaseline.tried",
    "LabelMap": "GateCreate.label_map",
    "NumberByName": "ItemResult.service_seconds",
    "NumberOrNull": "Bug.at_least",
    "Parents": "BugHuntQuestion.parents",
    "PredictionByName": "ItemResult.predictions",
    "ProblemOrNull": "Run.problem",
    "RunKind": "RegressionSet.kind",
    "RunState": "Run.state",
    "Scheduler": "ShiftBenchmarkCreate.scheduler",
    "Seed": "GateCreate.seed",
    "State": "Finding.state",
    "TextByName": "ItemResult.models",
    "TextOrNull": "Run.name",
    "Texts": "WordSpan.words",
    "TimeOrNull": "Run.ended_at",
}
"""Types that many fields have, by the name under which they are written once, and a field that has each."""


def operation_id(route: APIRoute) -> str:
    """Name an operation after its function: ``cancel_run``."""
    return route.name


def complete(document: Document) -> Document:
    """Add the problems and the links of every operation, and write each thing once and as it is."""
    components = document["components"]
    schemas = components["schemas"]
    # FastAPI does not find these models, because no route has one as its return type.
    for model in (Problem, FieldProblem):
        schema = model.model_json_schema(ref_template=_SCHEMA_REF)
        schema.pop("$defs", None)
        schemas[model.__name__] = schema
    for name in _UNUSED:
        schemas.pop(name, None)
    for methods in document["paths"].values():
        for operation in methods.values():
            _complete_operation(operation)
    components["responses"] = _refer_to_problems(document["paths"])
    _add_links(document["paths"], components["responses"])
    for part in _objects(document):
        _write_integers(part)
        _close_map(part)
        _leave_title_out(part)
        _write_null(part)
    components["parameters"] = _refer_to_parameters(document["paths"])
    _leave_configs_open(document)
    _leave_defaults_out(document["paths"], schemas)
    _write_once(schemas)
    return document


def _complete_operation(operation: Document) -> None:
    for parameter in operation.get("parameters", ()):
        _refuse_null(parameter["schema"])
    answers = operation["responses"]
    for answer in answers.values():
        _type_content(answer.get("content", {}))
    # FastAPI describes a body of its own for 422, which no answer here has.
    answers.pop("422", None)


def _refer_to_problems(paths: Document) -> Document:
    """Give every operation its problems, and return the answers that they share, with the codes of all."""
    groups: dict[str, list[tuple[Document, dict[str, int]]]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            codes = problems_of(method.upper(), path, operation)
            group = "Health" if path in HEALTH else "Reading" if method == "get" else "Writing"
            group = "Planning" if codes.keys() >= _PLANNING else group
            groups.setdefault(group, []).append((operation, codes))
    shared = {}
    for group, operations in groups.items():
        common = set.intersection(*(set(codes) for _, codes in operations))
        for status, name in (("4XX", f"{group}Refused"), ("5XX", f"{group}Failed")):
            shared[name] = {
                "description": "Problem",
                "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": _SCHEMA_REF.format(model="Problem")}}},
                CODES: sorted(code for code in common if str(operations[0][1][code])[0] == status[0]),
            }
            for operation, _ in operations:
                operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}
        for operation, codes in operations:
            operation[CODES] = sorted(set(codes) - common)
    return shared


def _leave_configs_open(document: Document) -> None:
    """Let the configuration in a summary be as open as `Run.resolved_config`, which it is."""
    schemas = document["components"]["schemas"]
    for fields in [schema["properties"] for schema in schemas.values() if "properties" in schema]:
        if fields.keys() >= {"run_id", "kind", "config"}:
            fields["config"] = {
                "description": "What the run depends on: its `resolved_config`.",
                "type": "object",
                "additionalProperties": True,
            }
    outer = [document["paths"], document["components"]["responses"]]
    for name in schemas.keys() - _under(outer, schemas):
        del schemas[name]


def _leave_defaults_out(paths: Document, schemas: Document) -> None:
    """Leave the defaults out of what is only answered: the gateway writes every field that it has."""
    operations = (operation for methods in paths.values() for operation in methods.values())
    given = _under([operation.get("requestBody") for operation in operations], schemas)
    for name in schemas.keys() - given:
        for field in schemas[name].get("properties", {}).values():
            field.pop("default", None)


def _under(parts: list[Any], schemas: Document) -> set[str]:
    """Return the names of the schemas to which parts of the document refer, and of all under these."""
    under, new = set[str](), parts
    while new:
        found = {part["$ref"].rpartition("/")[2] for part in _objects(new) if "$ref" in part}
        names = found & schemas.keys() - under
        under |= names
        new = [schemas[name] for name in names]
    return under


def _write_once(schemas: Document) -> None:
    """Refer to types that many fields have, and from a body to the question about it, which has the rest."""
    for name in [name for name in schemas if name.endswith("Question")]:
        question, body = schemas[name], schemas[name.replace("Question", "Create")]
        fields = body["properties"].items()
        own = {each: type for each, type in fields if type != question["properties"][each]}
        added = {"type": "object", "properties": own, "required": sorted(own)}
        # As two parts: some generators take a body with one part for another name of that part.
        body["allOf"] = [{"$ref": _SCHEMA_REF.format(model=name)}, added]
        for key in ("type", "properties", "required", "additionalProperties"):
            del body[key]
    for name, place in _SHARED.items():
        model, _, field = place.partition(".")
        schemas[name] = _type_of(schemas[model]["properties"][field])
    names = {repr(schemas[name]): name for name in _SHARED}
    for part in _objects(schemas):
        once = names.get(repr(_type_of(part)))
        if once is not None and part is not schemas[once]:
            kept = {key: part[key] for key in _OF_FIELD & part.keys()}
            part.clear()
            part |= kept | {"$ref": _SCHEMA_REF.format(model=once)}


def _type_of(field: Document) -> Document:
    """Return the schema of a field without what is said of the field itself."""
    return {key: value for key, value in sorted(field.items()) if key not in _OF_FIELD}


def _refer_to_parameters(paths: Document) -> Document:
    """Refer to parameters that several operations have, and return them by their names."""
    lists = [
        operation["parameters"]
        for methods in paths.values()
        for operation in methods.values()
        if "parameters" in operation
    ]
    times = Counter(repr(each) for parameters in lists for each in parameters)
    shared: Document = {}
    for parameters in lists:
        for place, each in enumerate(parameters):
            if times[repr(each)] > 1 and shared.setdefault(each["name"], each) == each:
                parameters[place] = {"$ref": f"#/components/parameters/{each['name']}"}
    return shared


def _refuse_null(schema: Document) -> None:
    """Take null from the types of a parameter: in an address or a header it would be a word."""
    others = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) == 1:
        del schema["anyOf"]
        schema |= others[0]


def _type_content(content: Document) -> None:
    """Give a type to what is no JSON: without one, a generated client drops the answer."""
    for media_type, described in content.items():
        if not described and media_type == "text/event-stream":
            # Readers differ in whether a schema is about the stream or about each event.
            described["schema"] = {"description": "Events, each with a `RunEvent` as its data."}
        elif not described:
            is_text = media_type.startswith("text/") or media_type == "application/jsonl"
            described["schema"] = {"type": "string"} if is_text else {"type": "string", "format": "binary"}


def _write_integers(schema: Document) -> None:
    """Write 9.223372036854776e18 as 9223372036854775808, which every reader takes for an integer."""
    if schema.get("type") == "integer":
        schema |= {bound: int(schema[bound]) for bound in _BOUNDS if bound in schema}


def _close_map(schema: Document) -> None:
    """Refuse names without the pattern: pydantic writes the pattern so that all other names are allowed."""
    if schema.get("type") == "object" and len(schema.get("patternProperties", ())) == 1:
        ((pattern, value),) = schema.pop("patternProperties").items()
        schema["propertyNames"] = {**schema.get("propertyNames", {}), "pattern": pattern}
        schema["additionalProperties"] = value


def _leave_title_out(schema: Document) -> None:
    """Leave out titles that pydantic makes of the names: they say nothing more."""
    if isinstance(schema.get("title"), str) and "version" not in schema:
        del schema["title"]


def _write_null(schema: Document) -> None:
    """Write "a number or null" as two types, not as two schemas."""
    match schema.get("anyOf"):
        case [{"type": str()} as one, {"type": "null"}] if not {"enum", "const"} & one.keys():
            del schema["anyOf"]
            schema |= {**one, "type": [one["type"], "null"]}


def _objects(part: Any) -> Iterator[Document]:
    inner = list(part.values()) if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in inner:
        yield from _objects(each)
    if isinstance(part, dict):
        yield part


def _add_links(paths: Document, answers: Document) -> None:
    """Link what makes a run or a dataset with all that is asked of it, by its id or name."""
    answers[_CREATED] = paths["/v1/stress-tests"]["post"]["responses"]["202"]
    answers[_CREATED]["links"] = _links(paths, _ONE_RUN, run_id="$response.body#/id")
    for methods in paths.values():
        for operation in methods.values():
            if operation["responses"].get("202", {}).get("content") == answers[_CREATED]["content"]:
                operation["responses"]["202"] = {"$ref": f"#/components/responses/{_CREATED}"}
    created = paths["/v1/datasets"]["post"]["responses"]["201"]
    created["links"] = _links(paths, "/v1/datasets/{name}", name="$response.body#/name")


def _links(paths: Document, root: str, **parameters: str) -> _Links:
    """Return links to every operation below a path that needs no parameters but these."""
    names = (
        operation["operationId"]
        for path, methods in paths.items()
        for operation in methods.values()
        if path.startswith(root) and path.count("{") == len(parameters)
    )
    return {name: {"operationId": name, "parameters": parameters} for name in names}
