"""The pages as a browser without script gets them: each complete, every link alive, nothing elsewhere."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from counterpose import AsyncClient
from counterpose_core.commands import next_step
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.ui.static_content import static_content
from fakes.findings import a_conjunction
from fakes.gateway import FakeGateway, fake_gateway
from fakes.page_runs import BODY, created, work
from fakes.pages import text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 50
HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
_LINK = re.compile(r'(?:href|src|action)="([^"]*)"')


@dataclass(frozen=True)
class Site:
    """A gateway with a run that has ended, one that is half done, and one that waits."""

    gateway: FakeGateway
    ended: str
    going: str
    waiting: str

    async def page(self, path: str, status: int = 200, *, part: bool = False) -> str:
        """The HTML of a page, or of the part that its script asks for."""
        headers = {"hx-request": "true"} if part else {}
        answer = await self.gateway.http.get(path, headers=headers)
        assert answer.status_code == status, (path, answer.text)
        assert answer.headers["content-type"].startswith("text/html")
        return answer.text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with fake_gateway(tmp_path_factory.mktemp("site")) as gateway:
        await gateway.upload("demo", 20, ("sled", "boat"))
        ended = await created(gateway)
        await gateway.worker().work_off()
        going = await created(gateway, seed=4)
        await work(gateway, 14)
        yield Site(gateway, ended, going, await created(gateway, seed=5))


async def test_the_first_address_leads_to_the_runs(site: Site) -> None:
    answer = await site.gateway.http.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui")
    said = text_of(await site.page("/ui"))
    assert "✗ breaks 1 of 2 models breaks when one thing in the image changes." in said
    for state in ("done", "running", "waiting"):
        assert state in said


async def test_a_gateway_without_runs_says_what_to_do_first(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        said = text_of((await gateway.http.get("/ui")).text)
        assert "counterpose datasets add mine ./images" in said
        assert "counterpose demo" in said


async def test_a_run_that_goes_shows_progress_suspicions_and_new_images(site: Site) -> None:
    html = await site.page(f"/ui/runs/{site.going}")
    said = text_of(html)
    assert re.search(r"\b70 of at most 200\b", said)
    assert "search for suspects" in said
    assert "? suspected 7 of 7" in said
    assert "The newest images" in said
    assert html.count("<img") >= 6
    assert 'http-equiv="refresh"' in html


async def test_what_polls_gets_its_part_alone_and_the_whole_page_in_the_end(site: Site) -> None:
    part = await site.page(f"/ui/runs/{site.going}/live", part=True)
    assert part.lstrip().startswith('<div id="live" hx-get="/ui/runs/')
    assert "<html" not in part
    table = await site.page("/ui?kind=stress-test", part=True)
    assert 'hx-get="/ui?kind=stress-test"' in table
    assert "<html" not in table
    ended = await site.gateway.http.get(f"/ui/runs/{site.ended}/live", headers={"hx-request": "true"})
    assert (ended.status_code, ended.headers["hx-refresh"]) == (204, "true")


async def test_a_run_that_has_ended_shows_its_report_with_links_to_what_is_behind_it(site: Site) -> None:
    html = await site.page(f"/ui/runs/{site.ended}")
    report = await site.gateway.http.get(f"/v1/runs/{site.ended}/report")
    assert text_of(report.text.partition("<main>")[2].partition("</main>")[0])[:2000] in text_of(
        html
    ).replace("All images of this finding ", "")
    assert html.count("<main>") == 1
    for number in (1, 2):
        assert f'href="/ui/runs/{site.ended}/findings/{number}"' in html
    assert re.search(rf'href="/ui/runs/{site.ended}/items/{site.ended}\.\d+"', html)


async def test_whoever_waits_for_a_report_holds_no_thread(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = asyncio.Event()

    async def slow(*_: object, keep: bool) -> str:
        assert keep
        await written.wait()
        return "<html><body>written</body></html>"

    monkeypatch.setattr("counterpose_gateway.ui.run_page.awaited_report", slow)
    path = f"/ui/runs/{site.ended}/report"
    waiting = [asyncio.create_task(site.gateway.http.get(path)) for _ in range(MANY)]
    async with asyncio.timeout(100.0):
        # A route without await takes one of the forty threads.
        assert (await site.gateway.http.get("/v1/runs")).status_code == 200
        assert not any(each.done() for each in waiting)
        written.set()
        assert {(await each).text for each in waiting} == {"<html><body>written</body></html>"}


async def test_a_finding_shows_its_figures_and_every_pair_with_its_control(site: Site) -> None:
    summary = (await site.gateway.http.get(f"/v1/runs/{site.ended}/summary")).json()
    for finding in summary["findings"]:
        html = await site.page(f"/ui/runs/{site.ended}/findings/{finding['number']}")
        said = text_of(html)
        assert finding["sentence"] in unescape(said)
        assert f"95 %: {finding['confirmed']['loss']['low']:.2f} to" in said
        assert html.count("<img") == 3 * len(finding["pairs"])
        for pair in finding["pairs"]:
            assert f"/items/{pair['edit']}" in html
            assert f"/items/{pair['control']}" in html


async def test_a_proven_finding_names_the_next_step_that_its_card_names(site: Site) -> None:
    answer = await site.gateway.http.get(f"/v1/runs/{site.ended}/summary")
    summary = StressTestSummary.model_validate(answer.json())
    report = await site.page(f"/ui/runs/{site.ended}")
    proven = [finding for finding in summary.findings if finding.state == "breaks"]
    assert proven
    for finding in proven:
        step = next_step(summary, finding)
        assert step is not None
        assert step.command == f"counterpose apply {site.ended[:8]} --finding {finding.number}"
        told = f"{step.title}: <code>{step.command}</code>"
        assert told in report
        assert told in await site.page(f"/ui/runs/{site.ended}/findings/{finding.number}")


async def test_a_finding_of_two_conditions_names_the_next_step_that_its_card_names(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = a_conjunction()
    monkeypatch.setattr("counterpose_gateway.methods.stress_test.proof._listed", lambda *_: [both])
    monkeypatch.setattr("counterpose_gateway.ui.finding_page.finding_of", lambda *_: both)
    html = unescape(await site.page(f"/ui/runs/{site.ended}/findings/1"))
    assert "only a single change can be tested further" in html
    answer = await site.gateway.http.get(f"/v1/runs/{site.ended}/summary")
    step = next_step(StressTestSummary.model_validate(answer.json()), both)
    assert step is not None
    assert f"{step.title}: <code>{step.command}</code>" in html
    assert 'class="prove"' not in html


async def test_a_suspicion_is_proven_by_a_form_and_a_form_sent_twice_is_one_request(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 20, ("sled", "boat"))
        run_id = await created(gateway, limit=10, confirm=False)
        path = f"/ui/runs/{run_id}/findings/1"
        early = await gateway.http.post(f"{path}/prove", data={"images": "12"})
        assert early.status_code in (404, 409)
        await gateway.worker().work_off()
        html = (await gateway.http.get(path)).text
        assert "? suspected" in html
        assert f"counterpose prove {run_id[:8]} --finding 1 --images" in html
        assert "counterpose apply" not in html
        key = re.search(r'name="key" value="([0-9a-f]+)"', html)
        assert key is not None
        for images in ("0", "101", "", "many", "1.5"):
            refused = await gateway.http.post(f"{path}/prove", data={"images": images})
            assert (refused.status_code, "number of images" in refused.text) == (422, True)
        # Another tenant's key as the ledger keeps it, which no header may be.
        others = await gateway.http.post(f"{path}/prove", data={"images": "12", "key": f"acme {'0' * 64}"})
        assert (others.status_code, "not one that the page made" in others.text) == (422, True)
        for _ in range(2):
            answer = await gateway.http.post(f"{path}/prove", data={"images": "12", "key": key[1]})
            assert (answer.status_code, answer.headers["location"]) == (303, path)
        [child] = gateway.ledger.runs.children(run_id)
        assert "Making more images of it" in (await gateway.http.get(path)).text
        part = await gateway.http.get(f"{path}/proof", headers={"hx-request": "true"})
        assert part.text.lstrip().startswith('<div id="proof"')
        await gateway.worker().work_off()
        ended = await gateway.http.get(f"{path}/proof", headers={"hx-request": "true"})
        assert (ended.status_code, ended.headers["hx-refresh"]) == (204, "true")
        proven = (await gateway.http.get(path)).text
        told = (await gateway.http.get(f"/v1/runs/{run_id}/findings/1")).json()
        assert told["finding"]["state"] == "breaks"
        assert told["finding"]["sentence"] in text_of(proven)
        assert "Evidence of 2 runs" in text_of(proven)
        assert f"counterpose apply {run_id[:8]} --finding 1</code>" in proven
        assert f"/ui/runs/{child.id}/items/{child.id}." in proven
        assert 'class="prove"' not in proven
        assert (await gateway.http.get(f"/ui/runs/{child.id}/findings/1")).status_code == 200
        assert f"/ui/runs/{run_id}" in (await gateway.http.get(f"/ui/runs/{child.id}")).text


async def test_proofs_and_applications_are_listed_under_their_run(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 20, ("sled", "boat"))
        run_id = await created(gateway, limit=10, confirm=False)
        await gateway.worker().work_off()
        other = await created(gateway, seed=4, limit=4, confirm=False)
        proof = await gateway.http.post(f"/v1/runs/{run_id}/findings/1/prove", json={"images": 2})
        client = AsyncClient(http=gateway.http)
        applied = await client.stress_tests.apply(run_id, 1)
        ids = [run_id, str(proof.json()["id"]), applied.id]
        await gateway.worker().work_off()
        html = (await gateway.http.get("/ui")).text
        # The run has new work under it, so that it stands above a younger one.
        assert re.findall(r'<th scope="row"><a href="/ui/runs/([0-9a-f]+)"', html) == [*ids, other]
        assert html.count('<tr class="child">') == 2
        said = text_of(html)
        assert f"Proof of finding 1 of run {run_id[:8]}" in said
        assert re.search(rf"Application of “.+” .+ from run {run_id[:8]}", said)
        alone = (await gateway.http.get("/ui?state=completed")).text
        assert 'class="child"' not in alone
        assert all(f'<a href="/ui/runs/{each}">' in alone for each in ids)
        gateway.ledger.runs.delete(run_id)
        orphans = (await gateway.http.get("/ui")).text
        assert all(f'<a href="/ui/runs/{each}">' in orphans for each in ids[1:])
        refused = await gateway.http.post("/v1/stress-tests", json=BODY | {"applied_from": run_id})
        assert refused.status_code == 404


async def test_an_old_run_with_new_work_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpose_gateway.ui.run_list.RUNS_OF_A_PAGE", 2)
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 4, ("sled", "boat"))
        first = await created(gateway, confirm=False)
        await gateway.worker().work_off()
        others = [await created(gateway, seed=seed, confirm=False) for seed in (5, 6, 7)]
        child = await created(gateway, applied_from=first, confirm=False)
        seen: list[str] = []
        address: str | None = "/ui"
        while address is not None:
            html = (await gateway.http.get(address)).text
            seen += re.findall(r'<th scope="row"><a href="/ui/runs/([0-9a-f]+)"', html)
            older = re.search(r'class="button" href="([^"]+)">Older', html)
            address = None if older is None else unescape(older[1])
        assert seen == [first, child, *reversed(others)]


async def test_an_item_shows_where_it_comes_from(site: Site) -> None:
    html = await site.page(f"/ui/runs/{site.ended}/items/{site.ended}.0")
    said = text_of(html)
    for words in ("leaning", "steady", "weights of the editor", "fake-editor@0", "time in the captioner"):
        assert words in said
    listed = await site.page(f"/ui/runs/{site.ended}/items?kind=confirmation")
    assert listed.count("<figure>") == 20


async def test_every_link_of_every_page_works_and_none_leads_elsewhere(site: Site) -> None:
    seen, todo, forms = set[str](), {"/ui", f"/ui/runs/{site.waiting}/delete"}, set[str]()
    while todo:
        path = todo.pop()
        seen.add(path)
        answer = await site.gateway.http.get(path)
        assert answer.status_code in (200, 303), path
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        addresses = [unescape(each) for each in _LINK.findall(answer.text)]
        assert [each for each in addresses if urlsplit(each).netloc or each.startswith("//")] == [], path
        assert [each for each in addresses if urlsplit(each).scheme not in ("", "data")] == [], path
        forms |= set(re.findall(r'action="([^"]*)"', answer.text))
        links = {each.partition("#")[0] for each in addresses if each.startswith("/")} - forms
        # Of the many pages of items and images a few will do.
        many = sorted(each for each in links if "/items/" in each or "/images/" in each or "after=" in each)
        todo |= (links - set(many) | set(many[:3])) - seen
    assert {urlsplit(path).path for path in seen} >= {"/ui", f"/ui/runs/{site.ended}/findings/2"}
    assert f"/ui/runs/{site.going}/cancel" in forms


async def test_an_unknown_address_is_answered_by_a_page(site: Site) -> None:
    for path in (
        "/ui/nothing", "/ui/runs/none", f"/ui/runs/{site.ended}/findings/99",
        f"/ui/runs/{site.ended}/items/x",
        "/ui/runs/none/findings/1", "/ui/static/none.js", "/ui/images/" + 64 * "0" + ".webp",
    ):  # fmt: skip
        assert "All runs" in text_of(await site.page(path, 404))
    for path in ("/ui?kind=none", "/ui/images/x.webp", f"/ui/runs/{site.ended}/findings/one"):
        assert "Code invalid-request" in text_of(await site.page(path, 422))


async def test_a_run_deleted_while_its_page_is_open_says_so(site: Site) -> None:
    run_id = await created(site.gateway, seed=6)
    live = f"/ui/runs/{run_id}/live"
    await site.page(live)
    refused = await site.gateway.http.post(f"/ui/runs/{run_id}/delete")
    assert refused.status_code == 409
    assert "cancel it, then delete it" in text_of(refused.text)
    await site.gateway.http.post(f"/ui/runs/{run_id}/cancel")
    answer = await site.gateway.http.post(f"/ui/runs/{run_id}/delete")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui?deleted=true")
    assert "The run was deleted." in text_of(await site.page("/ui?deleted=true"))
    part = await site.page(live, 404, part=True)
    assert "was deleted" in part
    assert "hx-get" not in part
    assert "was deleted" in text_of(await site.page(f"/ui/runs/{run_id}", 404))
    proof = await site.page(f"/ui/runs/{run_id}/findings/1/proof", 404, part=True)
    assert "was deleted" in proof
    assert "hx-get" not in proof


async def test_images_of_a_deleted_run_stay_for_others(site: Site) -> None:
    # The same request makes the same images, so that both runs show the same ones.
    twin = await created(site.gateway)
    await site.gateway.worker().work_off()
    assert (await site.gateway.http.delete(f"/v1/runs/{twin}")).status_code == 204
    html = await site.page(f"/ui/runs/{site.ended}/findings/1")
    for ref in re.findall(r'src="(/ui/images/[^"]+)"', html):
        answer: httpx.Response = await site.gateway.http.get(ref)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/webp")
    # Those that waited are worked off now, too.
    assert site.gateway.ledger.runs.get(site.going).state == "completed"


async def test_images_made_here_are_marked_and_those_of_users_are_not(site: Site) -> None:
    item = (await site.gateway.http.get(f"/v1/runs/{site.ended}/items?limit=1")).json()["items"][0]
    for ref, is_marked in ((item["source_image"], False), (item["result"]["image"], True)):
        for kind in ("webp", "png"):
            answer = await site.gateway.http.get(f"/ui/images/{ref}.{kind}")
            assert (b"rainedAlgorithmicMedia" in answer.content) == is_marked


async def test_a_named_run_is_listed_by_its_name(site: Site) -> None:
    path = f"/ui/runs/{site.ended}"
    answer = await site.gateway.http.post(f"{path}/rename", data={"name": "<b>before</b>"})
    assert answer.headers["location"] == path
    html = await site.page("/ui")
    assert "&lt;b&gt;before&lt;/b&gt;" in html
    await site.gateway.http.post(f"{path}/rename", data={"name": " "})
    assert site.gateway.ledger.runs.get(site.ended).name is None


async def test_what_others_wrote_is_as_it_was_published(site: Site) -> None:
    data, _ = static_content()["htmx.min.js"]
    assert sha256(data).hexdigest() == HTMX
    answer = await site.gateway.http.get("/ui/static/htmx.min.js")
    assert (answer.content, answer.headers["content-type"].partition(";")[0]) == (data, "text/javascript")
