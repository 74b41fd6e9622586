"""A run whose images lie outside its suite: stopped after the first ones, or made anyway with a warning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from counterpose import AsyncClient, AsyncStressTest
from counterpose_core.contract.suite_fit import KnownImages, OutsideSuite
from counterpose_core.errors import NotFound, RequestError, error_for
from fakes.gateway import FakeGateway, fake_gateway
from fakes.pages import text_of
from fakes.ports import FakeEditor
from fakes.world import fake_suite

# The fakes' images have a cosine of 0.3 with their captions.
FOREIGN = KnownImages(caption_nats=-0.1, image_text=0.5, psnr_db=28.0, preset="quick", images=300)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """A gateway whose suite knows other images."""
    folder: Path = tmp_path_factory.mktemp("outside")
    async with fake_gateway(folder, suite=fake_suite().model_copy(update={"known_images": FOREIGN})) as made:
        await made.upload("photographs", 10)
        yield made


async def worked_off(gateway: FakeGateway, outside_suite: OutsideSuite) -> AsyncStressTest:
    client = AsyncClient(http=gateway.http)
    run = await client.stress_tests.create(
        dataset="photographs", classifiers=["steady"], edit_types=["background"], max_edits_per_image=1,
        lance_r_edits_per_image=0, outside_suite=outside_suite, seed=3,
    )  # fmt: skip
    await gateway.worker(concurrency=1).work_off()
    return await run.refresh()


async def test_a_run_stops_after_its_first_images_and_says_why(gateway: FakeGateway) -> None:
    editor = gateway.services.editor
    assert isinstance(editor, FakeEditor)
    before = editor.calls["edit"]
    run = await worked_off(gateway, "stop")
    problem = run.run.problem
    assert (run.run.state, problem and problem.code) == ("failed", "images-outside-suite")
    assert problem is not None
    assert "8 of 8 images lie outside what suite 'miniature' was trained on" in problem.detail
    assert "--classifier timm:resnet50 --seed 3 --suite photographs" in problem.detail
    counts = run.run.request_counts
    assert counts.pending == 0
    assert counts.cancelled > counts.done
    assert editor.calls["edit"] - before == 8
    summary = await run.summary()
    assert summary.warnings[0] in str(summary)
    report = await run.report()
    assert "images lie outside what suite" in report[report.index('<section id="verdict">') :][:600]


async def test_the_page_of_a_stopped_run_has_one_warning_one_next_step_and_no_resume(
    gateway: FakeGateway,
) -> None:
    run = await worked_off(gateway, "stop")
    page = (await gateway.http.get(f"/ui/runs/{run.id}")).text
    text = text_of(page)
    assert text.count("images lie outside what suite") == 1
    assert page.count('class="warning"') == 1
    assert text.count("choose a suite with published weights") == 1
    assert text.count("Next: ") == 1
    assert "counterpose down &amp;&amp; counterpose stress-test photographs" in page
    assert page.count("--suite photographs") == 1
    assert "Stopped early: suite “miniature” does not know such images." in text
    assert ">stopped<" in page
    for absent in (
        "/resume",
        ">failed<",
        "No verdict",
        "gate-",
        'id="models"',
        'id="by-kind"',
        "Can I trust this?",
    ):
        assert absent not in page
    row = (await gateway.http.get("/ui?state=failed")).text
    assert "/resume" not in row
    assert "images lie outside what suite" in row


async def test_a_run_that_goes_on_anyway_has_its_figures_and_the_warning(gateway: FakeGateway) -> None:
    run = await worked_off(gateway, "continue")
    assert run.run.state == "completed"
    summary = await run.summary()
    assert summary.yields["kept"].estimate == 1.0
    assert summary.suite_fit is not None
    assert summary.suite_fit.outside == summary.suite_fit.share.n > 8


async def test_a_run_that_has_ended_is_not_stopped(gateway: FakeGateway) -> None:
    run = await worked_off(gateway, "continue")
    why = error_for("images-outside-suite", "too late")
    assert isinstance(why, RequestError)
    gateway.ledger.runs.stop(run.id, why)
    assert gateway.ledger.runs.get(run.id).state == "completed"
    with pytest.raises(NotFound):
        gateway.ledger.runs.stop("0" * 32, why)
