"""The site's own search, typed into as people do: the page that answers is among the first three.

It runs in a browser, on the site that `make docs` has built.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fakes.browser import Tab, browser

SITE = Path(__file__).parents[1] / "build" / "site"
SHORT = "start/questions/"
QUESTIONS = {
    'what does "can\'t tell" mean': "start/reading-a-report/",
    "how to run on Kubernetes": "how-to/kubernetes/",
    "how to see images in FiftyOne": f"{SHORT}#how-to-see-images-in-fiftyone",
    "FiftyOne": "how-to/export/",
    "how many images do I need": "start/how-many-images/",
    "what does it cost on a GPU": f"{SHORT}#what-does-it-cost-on-a-gpu",
    "GPU cost": "start/which-way/",
    "Triton model behind a token": f"{SHORT}#can-it-call-a-triton-model-server-behind-a-token",
    "laptop without GPU, photographs": "start/which-way/",
    "how do I add my own editor": "how-to/suites/",
    "exclude bad edits by hand": f"{SHORT}#can-i-exclude-bad-edits-by-hand",
    "compare two runs": f"{SHORT}#can-i-compare-two-runs-or-follow-a-model-over-time",
    "compare two runs over time": f"{SHORT}#can-i-compare-two-runs-or-follow-a-model-over-time",
    "detection, segmentation, multi-label": f"{SHORT}#does-it-test-detection-segmentation-multi-label",
    "corruptions, blur": f"{SHORT}#does-it-test-corruptions-such-as-blur-or-noise",
    "my own photographs": "how-to/photographs/",
    "macOS, Windows": "start/install/",
    "does anything leave my machine": "start/privacy/",
    "privacy": "start/privacy/",
}
"""What is typed, and the page or section that answers."""
NOT_YET = {
    "Triton token": "not yet",
    "laptop photographs": "not yet",
    "own editor": "not yet",
    "exclude edits by hand": "Not yet",
    "compare two runs": "not yet",
    "segmentation": "not supported",
}
"""What is typed, and what the first hit says of it."""

SEARCH = """(async () => {
  const config = JSON.parse(document.querySelector("#__config").textContent);
  const base = location.origin + "/";
  const data = await (await fetch(new URL("search.json", base))).json();
  const worker = new Worker(new URL(config.search, base));
  const answer = message => new Promise(done => {
    worker.onmessage = told => done(told.data);
    worker.postMessage(message);
  });
  await answer({type: 0, data});
  const filter = {input: {type: "operator", data: {operator: "and", operands: []}}, aggregation: {input: []}};
  const found = await answer({type: 2, data: {input: TYPED, filter}});
  worker.terminate();
  return found.data.items.map(hit => [data.items[hit.id].location, data.items[hit.id].text]);
})()"""
"""Asks the site's search as its own script does: the index, then the text in its box."""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    assert (SITE / "search.json").is_file(), "build the site first: make docs"
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser(tmp_path_factory.mktemp("profile")) as started:
            started.open(f"http://127.0.0.1:{server.server_address[1]}/index.html", 1200, 900)
            yield started
        server.shutdown()


def hits(tab: Tab, typed: str) -> list[tuple[str, str]]:
    """The sections that the search lists, best first: where each is, and its text."""
    return [(place, text) for place, text in tab.value(SEARCH.replace("TYPED", json.dumps(typed)))]


@pytest.mark.parametrize("typed", QUESTIONS)
def test_the_page_that_answers_is_among_the_first_three(tab: Tab, typed: str) -> None:
    answer = QUESTIONS[typed]
    places = [place for place, _ in hits(tab, typed)]
    found = places if "#" in answer else list(dict.fromkeys(place.partition("#")[0] for place in places))
    assert answer in found[:3]


@pytest.mark.parametrize("typed", NOT_YET)
def test_what_is_not_there_yet_says_so_in_one_line(tab: Tab, typed: str) -> None:
    assert any(NOT_YET[typed] in text for _, text in hits(tab, typed)[:3])


def test_pages_for_developers_and_the_list_of_http_bodies_are_not_searched() -> None:
    items = json.loads((SITE / "search.json").read_text(encoding="utf-8"))["items"]
    places = {item["location"] for item in items}
    left_out = ("design/", "evidence/", "experiments/", "papers/", "reference/http/")
    assert [place for place in places if place.startswith(left_out)] == []
    for place in left_out:
        assert (SITE / place).is_dir()
    assert "reference/errors/" in places
