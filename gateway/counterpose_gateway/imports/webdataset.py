"""Where the shards of a WebDataset are: a brace pattern, an index of `wids`, or one tar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ValidationError

from counterpose_core.errors import InvalidRequest, ShardUnreadable
from counterpose_gateway.imports.addresses import beside
from counterpose_gateway.imports.storage import Storage
from counterpose_gateway.records.imports import NewShard

INDEX = "wids-shard-index-v1"
LARGEST_INDEX = 64 << 20
LARGEST_CLASSES = 4 << 20
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


class _Listed(BaseModel):
    url: str


class _Index(BaseModel):
    """An index as `widsindex` writes it; other fields are ignored."""

    shardlist: list[_Listed]


def find_shards(url: str, storage: Storage, listed: int) -> Iterator[NewShard]:
    """Yield the shards from the ``listed``-th on.

    Raises:
        InvalidRequest: the pattern or the index is of no form that is read.
        ShardUnreadable: the index is missing.
    """
    if url.lower().endswith(".json"):
        found: Iterator[str] = iter(_indexed(url, storage))
    elif url.lower().endswith(".tar"):
        found = expanded(url)
    else:
        raise InvalidRequest(
            f"{url!r} names no shards: write shard-{{000000..000099}}.tar, a .json index or one .tar, "
            "uncompressed",
            pointer="/url",
        )
    for number, path in enumerate(found):
        if number >= listed:
            yield NewShard(path=path, mark=path)


def class_names(url: str, storage: Storage) -> Sequence[str] | None:
    """Return the names in ``classes.json`` or ``classes.txt`` beside the shards, or None without them.

    Raises:
        InvalidRequest: the file is of another form.
    """
    data = storage.small_file(beside(url, "classes.json"), LARGEST_CLASSES)
    if data is not None:
        try:
            names = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InvalidRequest(f"{beside(url, 'classes.json')!r} is no JSON") from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidRequest(f"{beside(url, 'classes.json')!r} is not a JSON array of class names")
        return names
    data = storage.small_file(beside(url, "classes.txt"), LARGEST_CLASSES)
    if data is None:
        return None
    try:
        lines = [line.strip() for line in data.decode("utf-8-sig").strip().splitlines()]
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{beside(url, 'classes.txt')!r} is not UTF-8; save it as UTF-8") from error
    if "" in lines:
        # Left out, it would give each number behind it another class's name.
        raise InvalidRequest(
            f"line {lines.index('') + 1} of {beside(url, 'classes.txt')!r} names no class; leave none empty"
        )
    return lines


def expanded(url: str) -> Iterator[str]:
    """Yield the addresses that a pattern with ranges such as ``{000..099}`` stands for.

    Raises:
        InvalidRequest: a brace holds something else.
    """
    found = _RANGE.search(url)
    if found is None:
        if "{" in url or "}" in url:
            raise InvalidRequest(
                f"{url!r} has a brace that holds no range; write {{000000..000099}}", pointer="/url"
            )
        yield url
        return
    first, last = int(found[1]), int(found[2])
    if first > last:
        raise InvalidRequest(f"the range {found[0]!r} of {url!r} is empty", pointer="/url")
    for number in range(first, last + 1):
        yield from expanded(f"{url[: found.start()]}{number:0{len(found[1])}d}{url[found.end() :]}")


def _indexed(url: str, storage: Storage) -> Iterator[str]:
    data = storage.small_file(url, LARGEST_INDEX)
    if data is None:
        raise ShardUnreadable(f"the index {url!r} does not exist")
    try:
        index = _Index.model_validate_json(data)
    except ValidationError as error:
        raise InvalidRequest(
            f"{url!r} is no index of shards ({INDEX}): it needs a list `shardlist` of objects with a `url`",
            pointer="/url",
        ) from error
    for each in index.shardlist:
        yield each.url if "://" in each.url else beside(url, each.url)
