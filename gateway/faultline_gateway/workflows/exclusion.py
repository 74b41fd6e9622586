"""Pictures that the request leaves out by name: nothing is made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline_core.contract.datasets import Source
from faultline_core.errors import InvalidRequest


def leave_out(sources: Sequence[Source], names: Sequence[str]) -> tuple[list[Source], list[str]]:
    """Part the sources to test from the ids of those that ``names`` names.

    A name is an id, a file name, or a class and a file name with a slash between.

    Raises:
        InvalidRequest: no source has one of the names, or pictures of several classes share it.
    """
    named = _named(sources)
    _refuse("no picture of the dataset is named", [name for name in names if name not in named])
    shared = [name for name in names if len({source.label for source in named[name]}) > 1]
    _refuse("several classes have pictures (put the class before it, with a slash) named", shared)
    out = {source.id for name in names for source in named[name]}
    return [source for source in sources if source.id not in out], sorted(out)


def _named(sources: Sequence[Source]) -> Mapping[str, list[Source]]:
    named: dict[str, list[Source]] = {}
    for source in sources:
        for name in {source.id, source.filename, f"{source.label}/{source.filename}"}:
            named.setdefault(name, []).append(source)
    return named


def _refuse(fault: str, names: Sequence[str]) -> None:
    if names:
        raise InvalidRequest(f"{fault} {', '.join(map(repr, dict.fromkeys(names)))}", pointer="/exclude")
