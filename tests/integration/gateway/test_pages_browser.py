"""The pages in a real browser: from the first address through a run as it goes to its findings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.browser import CHROMIUM, Tab, browser, click, until
from fakes.served_gateway import ServedGateway, served_gateway

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

BODY = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"],
    "max_edits_per_image": 3, "lance_r_edits_per_image": 0, "confirm_share": 0.5, "seed": 3,
}  # fmt: skip
MODES = {"wide": (1300, 1000, False), "dark": (1300, 1000, True), "phone": (390, 844, False)}
FIRST_IMAGE = """(() => {
  const photo = document.querySelector("img.photo, svg.photo");
  const before = document.createRange();
  before.setStart(document.body, 0);
  before.setEndBefore(photo);
  const words = before.toString().trim().split(/\\s+/).length;
  return {top: photo.getBoundingClientRect().top + scrollY, words};
})()"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One browser for all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    """One gateway with two classes of images."""
    with served_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        opened.call(opened.gateway.upload("demo", 20, ("sled", "boat")))
        yield opened


@pytest.fixture(scope="module")
def ended(served: ServedGateway) -> str:
    """The id of a run that has ended."""
    run_id = created(served)
    served.work()
    return run_id


def created(served: ServedGateway, **changes: object) -> str:
    """The id of a new stress test."""
    answer = served.call(served.gateway.http.post("/v1/stress-tests", json=BODY | changes))
    return str(answer.json()["id"])


def every_image_is_shown(tab: Tab) -> None:
    """Scroll through the page, in a way, and wait for its images."""
    tab.value("[...document.images].forEach((each) => { each.loading = 'eager' })")
    until(tab, "[...document.images].every((each) => each.complete && each.naturalWidth > 0)")


def says(words: str) -> str:
    """An expression: whether the page says so."""
    return f"(document.body?.innerText ?? '').includes({words!r})"


def test_from_the_first_address_through_a_run_to_its_finding(tab: Tab, served: ServedGateway) -> None:
    run_id = created(served, seed=7)
    tab.open(f"{served.address}/", 1300, 1000)
    assert tab.value("location.pathname") == "/ui"
    click(tab, f"a[href='/ui/runs/{run_id}']")
    assert tab.value(says("Waiting for a worker"))
    # The page is not loaded again from here on: what is new comes by itself.
    tab.value("window.isTheSamePage = true")
    served.work(14)
    until(tab, says("70 of at most 200"))
    until(tab, "document.querySelectorAll('#suspicions img').length >= 3")
    until(tab, says("The newest images"))
    assert tab.value("window.isTheSamePage")
    served.work()
    until(tab, says("1 of 2 models breaks"))
    assert not tab.value("window.isTheSamePage")
    click(tab, f"a[href='/ui/runs/{run_id}/findings/1']")
    assert tab.value(says("Fresh pairs"))
    assert tab.value("document.querySelectorAll('article img, #figures img').length") == 30
    click(tab, "#pairs article a")
    assert tab.value(says("How it was made"))
    every_image_is_shown(tab)


def test_a_suspicion_is_proven_on_more_images(tab: Tab, served: ServedGateway) -> None:
    run_id = created(served, limit=10, confirm=False)
    served.work()
    tab.open(f"{served.address}/ui/runs/{run_id}", 1300, 1000)
    # A run of one stage folds its hints.
    tab.value("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    click(tab, f"a[href='/ui/runs/{run_id}/findings/1']")
    assert tab.value(says("? suspected"))
    tab.value("document.querySelector('input[name=images]').value = 12")
    click(tab, ".prove button")
    assert tab.value(says("Making more images of it"))
    served.work()
    until(tab, says("✗ breaks"))
    assert tab.value(says("Evidence of 2 runs"))
    every_image_is_shown(tab)


def test_a_user_cancels_names_and_deletes_a_run(tab: Tab, served: ServedGateway) -> None:
    run_id = created(served, seed=8)
    tab.open(f"{served.address}/ui/runs/{run_id}", 1300, 1000)
    click(tab, "form[action$='/cancel'] button")
    assert tab.value(says("cancelled"))
    tab.value("document.querySelector('input[name=name]').value = 'to be deleted'")
    click(tab, "form[action$='/rename'] button")
    assert tab.value("document.title").startswith("to be deleted")
    click(tab, "a[href$='/delete']")
    click(tab, "form[action$='/delete'] button")
    assert tab.value("location.pathname") == "/ui"
    assert tab.value(says("The run was deleted."))
    assert not tab.value(says("to be deleted"))


def test_a_page_open_on_a_deleted_run_says_so_and_asks_no_more(tab: Tab, served: ServedGateway) -> None:
    run_id = created(served, seed=9)
    tab.open(f"{served.address}/ui/runs/{run_id}", 1300, 1000)
    served.gateway.ledger.runs.cancel(run_id)
    served.gateway.ledger.runs.delete(run_id)
    until(tab, says("was deleted"))
    assert tab.value("document.querySelector('[hx-get]')") is None


def test_the_list_shows_a_new_run_by_itself(tab: Tab, served: ServedGateway) -> None:
    first = created(served, seed=10)
    tab.open(f"{served.address}/ui", 1300, 1000)
    second = created(served, seed=11)
    until(tab, f"document.querySelector(\"a[href='/ui/runs/{second}']\") !== null")
    for run_id in (first, second):
        served.gateway.ledger.runs.cancel(run_id)


def paths(run_id: str) -> dict[str, str]:
    """The pages by name."""
    one = f"/ui/runs/{run_id}"
    return {
        "list": "/ui", "run": one, "finding": f"{one}/findings/1", "items": f"{one}/items",
        "item": f"{one}/items/{run_id}.121", "delete": f"{one}/delete",
    }  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_images_come_early(tab: Tab, served: ServedGateway, ended: str, mode: str) -> None:
    width, height, dark = MODES[mode]
    for name in ("run", "finding", "items", "item"):
        tab.open(served.address + paths(ended)[name], width, height, dark=dark)
        first = tab.value(FIRST_IMAGE)
        assert first["top"] <= 400, (name, first)
        assert first["words"] <= 120, (name, first)


def test_no_page_scrolls_sideways_or_breaks_its_own_policy(
    tab: Tab, served: ServedGateway, ended: str
) -> None:
    watch = (
        "window.broken = []; addEventListener('securitypolicyviolation', (e) => broken.push(e.blockedURI))"
    )
    script = tab.ask("Page.addScriptToEvaluateOnNewDocument", source=watch)["identifier"]
    for name, path in paths(ended).items():
        for width in (320, 390, 1300):
            tab.open(served.address + path, width, 800)
            tab.value("document.querySelectorAll('details').forEach((each) => { each.open = true })")
            assert tab.value("document.documentElement.scrollWidth") == width, (name, width)
        assert tab.value("window.broken") == [], name
        names = "[...new Set(performance.getEntriesByType('resource').map((e) => new URL(e.name).origin))]"
        assert [each for each in tab.value(names) if each not in (served.address, "null")] == [], name
    tab.ask("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def test_targets_are_large_enough(tab: Tab, served: ServedGateway, ended: str) -> None:
    for name, path in paths(ended).items():
        tab.open(served.address + path, 390, 844)
        small = tab.value(
            "[...document.querySelectorAll('button, summary, input, .button, .at, nav a, header a')]"
            ".filter((e) => e.offsetParent && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML)"
        )
        assert small == [], name


def test_every_page_is_whole_without_script(tab: Tab, served: ServedGateway, ended: str) -> None:
    for name, path in paths(ended).items():
        tab.open(served.address + path, 1300, 1000, script=False)
        pixels = tab.pixels(whole=True)
        # Not one colour, which a page without its styles and images would be.
        assert pixels.std() > 5, name
        assert pixels.shape[0] > 200, name
