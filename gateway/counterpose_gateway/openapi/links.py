"""Links of the document: which operations an answer names the object of, by its id or name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Links = dict[str, dict[str, Any]]
ONE = "/{run_id}"


def add_links(paths: dict[str, Any]) -> None:
    """Link what makes a run or a dataset with all that is asked of it."""
    for root in [path for path in paths if f"{path}{ONE}" in paths]:
        _add(paths[root]["post"], "202", _links(_of_one_run(paths, root), run_id="$response.body#/id"))
    of_dataset = [
        operation
        for path, methods in paths.items()
        if path.startswith("/v1/datasets/{name}")
        for operation in methods.values()
    ]
    _add(paths["/v1/datasets"]["post"], "201", _links(of_dataset, name="$response.body#/name"))


def _of_one_run(paths: dict[str, Any], root: str) -> Iterator[Any]:
    """Every operation that needs only the id of a run."""
    for path, methods in paths.items():
        if path.startswith(f"{root}{ONE}") and path.count("{") == 1:
            yield from methods.values()


def _links(operations: Any, **parameters: str) -> Links:
    names = (operation["operationId"] for operation in operations)
    return {name: {"operationId": name, "parameters": parameters} for name in names}


def _add(operation: dict[str, Any], status: str, links: Links) -> None:
    operation["responses"][status]["links"] = links
