"""The page of a run that goes, while it tests what its screen suspects."""

from __future__ import annotations

import re
from pathlib import Path
from zlib import crc32

import pytest

from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from fakes.gateway import fake_gateway
from fakes.page_runs import created, work
from fakes.pages import text_of
from fakes.ports import FakeClassifiers, fake_services


class SeldomLed(FakeClassifiers):
    """Snow leads it astray on few images: a screen tests that, and a run without a test would not tell it."""

    def predict(self, request: ClassifyRequest, image: str) -> Prediction:
        """As the fake does, on one image of five."""
        seldom = request.model_copy(update={"classifier": "steady"}) if crc32(image.encode()) % 5 else request
        return super().predict(seldom, image)


@pytest.fixture
def _figures_are_never_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page of a run that goes sum it up again whenever it is asked for."""
    monkeypatch.setattr("counterpose_gateway.ui.page_state.LEAST_AGE_SECONDS", 0.0)
    monkeypatch.setattr("counterpose_gateway.ui.page_state.SHARE_OF_TIME", 1e9)
    monkeypatch.setattr("counterpose_gateway.ui.page_state.LOOK_SECONDS", 0.0)


@pytest.mark.usefixtures("_figures_are_never_old")
async def test_what_is_tested_in_later_phases_is_shown_first_while_it_is_tested(tmp_path: Path) -> None:
    phases = {2: "test the suspects", 3: "go on with those that still look harmful"}
    services = lambda world: fake_services(world, classifiers=SeldomLed(world))  # noqa: E731
    async with fake_gateway(tmp_path, ports=services) as gateway:
        await gateway.upload("demo", 30, ("sled", "boat"))
        run_id = await created(gateway)
        for stage, name in phases.items():
            while gateway.ledger.runs.get(run_id).stage < stage:
                await work(gateway, 1)
            await work(gateway, 2)
            run = gateway.ledger.runs.get(run_id)
            assert (run.stage, run.state) == (stage, "in_progress")
            later = [each for each in gateway.ledger.items.all(run_id) if each.stage > 1]
            tested = {
                (each.label, each.instruction.change.added)
                for each in later
                if each.instruction is not None and each.instruction.change is not None
            }
            assert tested
            for path in (f"/ui/runs/{run_id}/live", f"/ui/runs/{run_id}"):
                html = (await gateway.http.get(path)).text
                assert f'aria-current="step">{name}</li>' in html
                said = text_of(html)
                assert "The first of these are being tested: the result comes at the end." in said
                shown = re.findall(r"<h2>(leaning [^<]+)</h2>", html)
                assert len(shown) == len(tested)
                for label, words in tested:
                    told = rf"leaning .+ {label}s .+“…{words}”.+, not yet tested\."
                    assert any(re.fullmatch(told, one) for one in shown), (told, shown)
