"""Whom the pages serve: axe in light, dark and on a phone, the keyboard, no script, and runs that vanish."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fakes.axe import violations
from fakes.browser import CHROMIUM, Tab, browser, click, until
from fakes.page_access import MODES, hindrances, hindrances_without_script, said
from fakes.served_gateway import ServedGateway, served_gateway

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

KEY = "a-key-of-enough-characters"
BODY = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 0, "confirm_share": 0.5, "seed": 3,
}  # fmt: skip
SAID = {
    "first steps": "No run yet. Three steps to the first one",
    "sign in": "API key",
    "list": "1 of 2 models breaks when one thing in the image changes.",
    "going": "Not tested yet: some of these will go away.",
    "ended": "Compare models",
    "finding": "9 more images",
    "items": "0 · sled, reconstruction",
    "item": "How it was made",
    "delete": "are gone for good",
    "unknown": "No run has the id 'none'",
}
"""What each page has to say, with or without script."""

every_page = pytest.mark.parametrize("name", SAID)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    """A gateway that wants a key, with two classes of images."""
    with served_gateway(tmp_path_factory.mktemp("gateway"), api_keys=[KEY]) as opened:
        opened.gateway.http.headers["authorization"] = f"Bearer {KEY}"
        opened.call(opened.gateway.upload("demo", 20, ("sled", "boat")))
        yield opened


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory, served: ServedGateway) -> Iterator[Tab]:
    """A browser whose user has signed in, by the form."""
    with browser(tmp_path_factory.mktemp("profile")) as started:
        started.open(f"{served.address}/ui", 1300, 1000)
        assert started.value("location.pathname") == "/ui/login"
        started.value(f"document.querySelector('#key').value = {KEY!r}")
        click(started, "form button")
        assert started.value("location.pathname") == "/ui"
        yield started


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory, served: ServedGateway) -> Iterator[dict[str, str]]:
    """Every page by name; one run has ended, another is half done."""
    ended = created(served)
    served.work()
    going = created(served, seed=7)
    served.work(14)
    one = f"/ui/runs/{ended}"
    paths = {
        "sign in": "/ui/login", "list": "/ui", "going": f"/ui/runs/{going}", "ended": one,
        "finding": f"{one}/findings/1", "items": f"{one}/items", "item": f"{one}/items/{ended}.121",
        "delete": f"{one}/delete", "unknown": "/ui/runs/none",
    }  # fmt: skip
    with served_gateway(tmp_path_factory.mktemp("empty")) as empty:
        yield {name: served.address + path for name, path in paths.items()} | {
            "first steps": f"{empty.address}/ui"
        }


def created(served: ServedGateway, **changes: object) -> str:
    """The id of a new stress test."""
    answer = served.call(served.gateway.http.post("/v1/stress-tests", json=BODY | changes))
    return str(answer.json()["id"])


@every_page
@pytest.mark.parametrize("mode", MODES)
def test_a_page_hinders_nobody(tab: Tab, addresses: dict[str, str], name: str, mode: str) -> None:
    assert hindrances(tab, addresses[name], mode, SAID[name]) == []


def test_axe_works_in_spite_of_the_policy_of_a_page(tab: Tab, addresses: dict[str, str]) -> None:
    tab.open(addresses["list"], 1300, 1000)
    tab.value("document.querySelector('main').append(new Image(9, 9))")
    tab.value("document.querySelector('h1').style.color = '#ddd'")
    found = violations(tab)
    assert [each.partition(":")[0] for each in found] == ["color-contrast", "image-alt"]


@every_page
def test_a_page_without_script_says_all_and_offers_nothing_that_does_nothing(
    tab: Tab, addresses: dict[str, str], name: str
) -> None:
    assert hindrances_without_script(tab, addresses[name], SAID[name]) == []


def test_a_run_is_named_and_cancelled_without_script(tab: Tab, served: ServedGateway) -> None:
    run_id = created(served, seed=8)
    tab.open(f"{served.address}/ui/runs/{run_id}", 390, 844, script=False)
    tab.value("document.querySelector('input[name=name]').value = 'by hand'")
    click(tab, "form[action$='/rename'] button")
    click(tab, "form[action$='/cancel'] button")
    run = served.gateway.ledger.runs.get(run_id)
    assert (run.name, run.state) == ("by hand", "cancelled")
    assert "cancelled" in said(tab)


def test_a_page_whose_run_is_deleted_keeps_nothing_of_it(tab: Tab, served: ServedGateway) -> None:
    run_id = created(served, seed=9)
    tab.open(f"{served.address}/ui/runs/{run_id}", 390, 844)
    served.gateway.ledger.runs.cancel(run_id)
    served.gateway.ledger.runs.delete(run_id)
    until(tab, f"document.body.innerText.includes(\"Run '{run_id}' was deleted\")")
    assert tab.value("document.querySelector('h1').innerText") == "Not found"
    assert tab.value("document.querySelectorAll('.badge, main form').length") == 0
    assert violations(tab) == []
    asked = "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/live')).length"
    before = tab.value(asked)
    time.sleep(2.5)
    assert tab.value(asked) == before
    click(tab, "main a.button")
    assert tab.value("location.pathname") == "/ui"


@pytest.mark.parametrize(
    "then", ["a[href$='/delete']", "a[href$='/items']", "form[action$='/resume'] button"]
)
def test_a_click_on_a_page_of_a_deleted_run_says_so(tab: Tab, served: ServedGateway, then: str) -> None:
    run_id = created(served, seed=10)
    served.gateway.ledger.runs.cancel(run_id)
    tab.open(f"{served.address}/ui/runs/{run_id}", 390, 844)
    served.gateway.ledger.runs.delete(run_id)
    click(tab, then)
    assert f"Run '{run_id}' was deleted; list the runs to see the others" in said(tab)
