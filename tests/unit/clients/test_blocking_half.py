"""The SDK's blocking half: it is what the script makes of the asyncio half, which is the written one."""

from __future__ import annotations

import ast

import pytest

from blocking_half import TARGETS, blocking, blocking_name, halves

WRITTEN = '''
class AsyncThing(AsyncListing[L]):
    """A thing of `AsyncOther` for asyncio programs, with awaitable calls."""

    async def look(self, asynchronous: bool = False) -> AsyncIterator[str]:
        # As `AsyncThing.look`: not to await anything twice.
        async with aclosing(await self._http.send("await me")) as response:
            async for line in response.aiter_bytes():
                yield await self._said(line, async_shown)
'''
MADE = '''
class Thing(Listing[L]):
    """A thing of `Other`, with blocking calls."""

    def look(self, asynchronous: bool = False) -> Iterator[str]:
        # As `Thing.look`: not to anything twice.
        with closing(self._http.send("me")) as response:
            for line in response.iter_bytes():
                yield self._said(line, shown)
'''


def test_the_blocking_half_is_what_the_script_makes() -> None:
    made = halves()
    assert set(made) == set(TARGETS.glob("*.py"))
    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python clients/blocking_half.py"


def test_names_texts_and_keywords_differ_and_nothing_else() -> None:
    assert blocking(WRITTEN) == MADE


@pytest.mark.parametrize("name", ["asynchronous", "Asynchron", "resync", "wait", "sync_async_"])
def test_a_name_that_only_looks_alike_stays(name: str) -> None:
    assert blocking_name(name) == name


def test_the_blocking_half_awaits_nothing() -> None:
    nodes = [node for path in TARGETS.glob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    awaited = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert [ast.unparse(node) for node in nodes if isinstance(node, awaited)] == []
    words = {ast.unparse(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute | ast.alias)}
    assert [word for word in words if "async" in word.lower()] == []
