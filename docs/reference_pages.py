"""``python docs/reference_pages.py``: write the pages of reference, and the tables of how-to/limits.md."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from counterpose._cli.main import app
from counterpose_core.contract.editor_backends import CAPABILITIES, OPERATIONS, Capabilities
from counterpose_core.errors import error_classes
from counterpose_core.field_descriptions import field_description
from counterpose_core.images import codecs, file_structure, lossless_webp
from counterpose_core.kinds import KINDS
from counterpose_core.suite import Suite, load_suite
from counterpose_core.suite_files import suite_names
from counterpose_core.suite_servers import SuiteServers
from counterpose_gateway.http import bodies, bounds, in_flight
from counterpose_gateway.images import pixels
from counterpose_gateway.methods import METHODS
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.settings import GatewaySettings
from counterpose_gateway.settings import variable as gateway_variable
from counterpose_services.service_options import ServiceOptions
from counterpose_services.settings import SERVICES, SHARED_PREFIX, ServiceSettings
from counterpose_services.settings import variable as services_variable

ROOT = Path(__file__).resolve().parent
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---"
"""Every name of the API is in it, so it would be among the first hits of every word."""
SERVERS = SuiteServers(
    language_server="https://language.example/v1",
    language_model="a model",
    images_server="https://images.example/v1",
    images_model="a model",
)
"""What the pages show does not depend on them."""
GENERATED = "<!-- Written by `python docs/reference_pages.py`; do not edit. -->"
_OF_ERRORS = """\
Every failure is an `application/problem+json` document (RFC 9457). Its `code` is one of the list below. Its
`detail` names the offending input and says what to do. `retryable` says whether the same request may succeed
later; the response then has a `Retry-After` header. The Python SDK raises the class that each section names,
with the same `detail`. Failed items of a run have the same codes."""


def cli_page() -> str:
    """Every command with its arguments and options, as the command line declares them."""
    parts = ["# Command line", GENERATED, "`counterpose --help` lists the same."]
    parts += [
        _command(name, command) for name, command in _commands("counterpose", typer.main.get_command(app))
    ]
    return _page(parts)


def _commands(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in getattr(group, "commands", {}).items():
        if getattr(command, "commands", None):
            if getattr(command, "callback", None) is not None:
                yield f"{prefix} {name}", command
            yield from _commands(f"{prefix} {name}", command)
        else:
            yield f"{prefix} {name}", command


def _command(name: str, command: Any) -> str:
    rows = [row for parameter in command.params if (row := _parameter(parameter)) is not None]
    positional = (each for each in command.params if each.param_type_name == "argument")
    arguments = " ".join((each.metavar or each.name.upper()) for each in positional)
    lines = [f"## `{name}`", "", _plain(command.help or ""), "", "```", f"{name} {arguments}".strip(), "```"]
    if rows:
        lines += ["", "| option | meaning | default |", "| --- | --- | --- |", *rows]
    return "\n".join(lines)


def _parameter(parameter: Any) -> str | None:
    if "--help" in parameter.opts:
        return None
    names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    shown = "required" if parameter.required else "" if default in (None, (), []) else f"`{default}`"
    if callable(default) or "UNSET" in repr(default) or default is False:
        shown = "required" if parameter.required else ""
    return f"| {names} | {_cell(getattr(parameter, 'help', None) or '')} | {shown} |"


def http_page() -> str:
    """Every endpoint of the gateway and the bodies it takes and gives, from the OpenAPI document."""
    document = json.loads((ROOT.parent / "gateway" / "openapi.json").read_text(encoding="utf-8"))
    schemas = document["components"]["schemas"]
    bodies = [
        operation["requestBody"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    given = _under(bodies, schemas)
    models = [name for name in schemas if _is_body(schemas[name])]
    parts = [
        NOT_SEARCHED,
        "# HTTP",
        GENERATED,
        "The gateway serves this document as `/openapi.json`. Errors are problem+json ([errors](errors.md)); "
        "the document lists the codes of each operation as `x-problem-codes`, and with the answers that it "
        "refers to those that operations share. openapi-python-client generates a client from it with the "
        "configuration `tests/contract/openapi_python_client.yaml`.",
        "\n".join(_endpoints(document)),
        "## What is sent",
        *(_sent(name, schemas) for name in models if name in given),
        "## What is answered",
        "The fields by their names, and the body that each is or has; `/openapi.json` says of each what it "
        "means, its type and its bounds.",
        *(_answered(name, schemas) for name in models if name not in given),
    ]
    return _page(parts)


def _endpoints(document: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"- `{method.upper()} {path}`: {_cell(operation['description'].splitlines()[0])}"


def _under(parts: list[Any], schemas: Mapping[str, Any]) -> set[str]:
    """Return the names of the schemas to which parts of the document refer, and of all under these."""
    found = set[str]()
    while parts:
        names = {ref for part in parts for ref in _references(part)} - found
        found |= names
        parts = [schemas[name] for name in names]
    return found


def _references(part: Any) -> Iterator[str]:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in inner:
        yield from _references(each)
    if isinstance(part, dict) and isinstance(part.get("$ref"), str):
        yield part["$ref"].rpartition("/")[2]


def _is_body(schema: Mapping[str, Any]) -> bool:
    return "properties" in schema or "allOf" in schema


def _sent(name: str, schemas: Mapping[str, Any]) -> str:
    schema = schemas[name]
    lines = [f"### {name}", "", _plain(schema.get("description", ""))]
    if "allOf" in schema:
        whole, schema = schema["allOf"]
        lines += ["", f"Every field of {_type(whole, schemas)}, with:"]
    required = set(schema.get("required", ()))
    rows = [_field(field, value, field in required, schemas) for field, value in schema["properties"].items()]
    return "\n".join([*lines, "", *rows])


def _field(name: str, value: Mapping[str, Any], required: bool, schemas: Mapping[str, Any]) -> str:
    type = f"{_type(value, schemas)}{'' if required else ', optional'}"
    return f"- `{name}` ({type}): {_cell(value.get('description', ''))}".removesuffix(": ")


def _answered(name: str, schemas: Mapping[str, Any]) -> str:
    fields = []
    for field, value in schemas[name]["properties"].items():
        named = [inner for each in _references(value) for inner in (each, *_references(schemas[each]))]
        linked = [f" ([{each}](#{each.lower()}))" for each in named if "properties" in schemas[each]]
        fields.append(f"`{field}`{''.join(linked[:1])}")
    text = _plain(schemas[name].get("description", "")).split("\n\n")[0].replace("\n", " ")
    return f"### {name}\n\n{text} {', '.join(fields)}."


def _type(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        if _is_body(schemas[name]):
            return f"[{name}](#{name.lower()})"
        return _type(schemas[name], schemas)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_type(each, schemas) for each in schema[several])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind: str | list[str] = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(_type({**schema, "type": each}, schemas) for each in kind)
    if kind == "array":
        return f"list of {_type(schema.get('items', {}), schemas)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"map to {_type(schema['additionalProperties'], schemas)}"
    return kind


def settings_page() -> str:
    """The settings of gateway and services, one variable a row."""
    gateway = {gateway_variable(name): name for name in GatewaySettings.model_fields}
    services = {
        services_variable(name): name for name in ServiceSettings.model_fields if name not in SERVICES
    }
    own = {f"{SHARED_PREFIX}<SERVICE>_{name.upper()}": name for name in ServiceOptions.model_fields}
    parts = [
        "# Settings",
        GENERATED,
        "Read from the environment when a process starts. "
        "`COUNTERPOSE_STATE_DIR` moves ledger, store and secret together.",
        "## Gateway\n\n" + _settings(GatewaySettings, gateway),
        "## Services\n\n" + _settings(ServiceSettings, services),
        "## One service\n\nA service's own settings come before the common ones: with "
        "`COUNTERPOSE_SERVICES_DEVICE=cuda` and `COUNTERPOSE_SCORER_DEVICE=cpu`, only the scorer is on the "
        f"CPU. `<SERVICE>` is {', '.join(f'`{name.upper()}`' for name in SERVICES)}.\n\n"
        + _settings(ServiceOptions, own),
    ]
    return _page(parts)


def suites_page() -> str:
    """Which methods each suite can run, and what its editor can do, by what they declare."""
    suites = [load_suite(name, SERVERS) for name in suite_names()]
    methods = sorted(METHODS.values(), key=lambda method: KINDS[method.kind].title)
    abilities = list(Capabilities.model_fields)
    parts = [
        "# Suites and methods",
        GENERATED,
        "A suite may leave services out. A method that needs one of them is refused by its name before "
        "anything runs; `counterpose status` says which services a running suite has. "
        "[Suites](../how-to/suites.md) tells what each is for.",
        _matrix(
            "method",
            [KINDS[method.kind].title for method in methods],
            suites,
            lambda at, suite: _lacks(methods[at], suite),
        ),
        "## What editors and operations can do",
        "Each editor declares it, and answers with it to `GET /v1/services`. Of a suite without an editor, "
        "the column says what its operations on images can do, which the classifiers carry out.",
        _matrix(
            "ability",
            [f"`{name}`: {_cell(field_description(Capabilities, name))}" for name in abilities],
            suites,
            lambda at, suite: _able(abilities[at], suite),
        ),
    ]
    return _page(parts)


def _matrix(
    head: str, rows: Sequence[str], suites: Sequence[Suite], cell: Callable[[int, Suite], str]
) -> str:
    lines = [
        f"| {head} | {' | '.join(f'`{suite.name}`' for suite in suites)} |",
        "| --- " * (len(suites) + 1) + "|",
    ]
    lines += [f"| {row} | {' | '.join(cell(at, suite) for suite in suites)} |" for at, row in enumerate(rows)]
    return "\n".join(lines)


def _lacks(method: AnyMethod, suite: Suite) -> str:
    absent = [*method.absent(suite), *method.beyond(suite)]
    return f"no {', no '.join(absent)}" if absent else "yes"


def errors_page() -> str:
    """Every error code with its title, status, cause and remedy."""
    explained = tomllib.loads((ROOT / "errors.toml").read_text(encoding="utf-8"))
    parts = ["# Errors", GENERATED, _OF_ERRORS]
    for code, error in error_classes().items():
        retry = "retryable" if error.retryable else "not retryable"
        parts += [f"## {code}", f"{error.title}. HTTP {error.status}, {retry}, `{error.__name__}`."]
        parts += [f"**{name.title()}.** {' '.join(text.split())}" for name, text in explained[code].items()]
    return _page(parts)


def _able(ability: str, suite: Suite) -> str:
    editor = suite.editor_part
    if editor is not None:
        able = CAPABILITIES[editor.presets[editor.default_preset].backend]
    elif suite.transforms is not None:
        able = OPERATIONS
    else:
        return "no editor"
    return "yes" if getattr(able, ability) else "no"


def _settings(model: type[BaseModel], variables: Mapping[str, str]) -> str:
    rows = ["| variable | meaning | default |", "| --- | --- | --- |"]
    for variable, name in variables.items():
        field = model.model_fields[name]
        unset = field.default is PydanticUndefined or field.default in (None, ())
        meaning = _cell(field_description(model, name))
        rows.append(f"| `{variable}` | {meaning} | {'' if unset else f'`{field.default}`'} |")
    return "\n".join(rows)


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.replace("``", "`").strip().splitlines())


def _cell(text: str) -> str:
    spans = " ".join(_plain(text).split()).replace("|", "\\|").split("`")
    # Markdown shows code as it is written: there an escaped bracket would be read as "&lt;".
    return "`".join(span if index % 2 else span.replace("<", "&lt;") for index, span in enumerate(spans))


def _page(parts: list[str]) -> str:
    return "\n\n".join(part.strip() for part in parts) + "\n"


def limits_page() -> str:
    """The page of limits, with its tables written anew from ``limits.toml`` and the code's constants."""
    text = (ROOT / "how-to" / "limits.md").read_text(encoding="utf-8")
    declared = tomllib.loads((ROOT / "limits.toml").read_text(encoding="utf-8"))
    numbers = _constants()
    limits = ["| setting | series | bounds | answer |", "| --- | --- | --- | --- |"]
    for limit in declared["limit"]:
        source = limit["source"].format_map(numbers)
        named = source if source.startswith("fixed") else f"`COUNTERPOSE_{source}`"
        series = f"`{limit['series']}`" if "series" in limit else ""
        limits.append(f"| {named} | {series} | {limit['bounds'].format_map(numbers)} | {limit['answer']} |")
    work = ["| routes | take |", "| --- | --- |"]
    work += [
        f"| {', '.join(f'`{each}`' for each in one['routes'])} | {one['takes']} |" for one in declared["work"]
    ]
    work += [f"| import of `{layout}` | {takes} |" for layout, takes in declared["imports"].items()]
    for name, rows in (("limits", limits), ("work", work)):
        head, rest = text.split(f"<!-- {name} -->", 1)
        tail = rest.split(f"<!-- /{name} -->", 1)[1]
        rows = [each.replace(":segment", "").replace(":path", "") for each in rows]
        text = "\n".join([f"{head}<!-- {name} -->", "", *rows, "", f"<!-- /{name} -->{tail}"])
    return text


def _constants() -> dict[str, str]:
    """The numbers that the page of limits has from the code, large ones in millions."""
    found = {
        name: value
        for module in (bodies, bounds, codecs, file_structure, in_flight, lossless_webp, pixels)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, int | float)
    }
    return {
        name: f"{value / 1e6:.0f}" if value >= 1e6 else f"{value:,}" if value >= 1000 else f"{value:g}"
        for name, value in found.items()
    }


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli": cli_page,
    "reference/errors": errors_page,
    "reference/http": http_page,
    "reference/settings": settings_page,
    "reference/suites": suites_page,
    "how-to/limits": limits_page,
}


def main() -> None:
    """Write every page, or with ``--check`` say which is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    check = parser.parse_args().check
    stale = []
    for name, write in PAGES.items():
        path = ROOT / f"{name}.md"
        if not check:
            path.write_text(write(), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != write():
            stale.append(str(path.relative_to(ROOT.parent)))
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run: python docs/reference_pages.py")


if __name__ == "__main__":
    main()
