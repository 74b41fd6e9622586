"""Thresholds of a stress test over HTTP: a request's own, and a run judged again without an editor."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose import AsyncClient
from counterpose_core.errors import InvalidRequest
from fakes.gateway import fake_gateway
from fakes.ports import FakeEditor


async def test_a_run_is_judged_again_by_summary_report_and_export_and_nothing_is_made(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        await gateway.upload("demo", 3)
        client = AsyncClient(http=gateway.http)
        run = await client.stress_tests.create(
            dataset="demo", classifiers=["steady", "leaning"], edit_types=["background"],
            max_edits_per_image=2, lance_r_edits_per_image=0, thresholds={"direction": 0.25},
            strength=[0.4, 0.7], seed=3,
        )  # fmt: skip
        await gateway.worker().work_off()
        assert run.run.resolved_config["gate"]["direction"] == 0.25
        assert run.run.resolved_config["preset"]["self_replace"] == [0.4, 0.7]
        editor = gateway.services.editor
        assert isinstance(editor, FakeEditor)
        calls = dict(editor.calls)

        own = await run.summary()
        assert own.judged_again is None
        # The fakes' best direction is 0.48, at 0.4.
        strict = await run.summary(thresholds={"direction": 0.5})
        assert own.yields["kept"].estimate == 1.0
        assert strict.yields["kept"].estimate == 0.0
        assert strict.dropped["gate-direction"] == own.yields["kept"].n
        assert strict.judged_again is not None
        assert strict.judged_again.own_gate.direction == 0.25
        report = await run.report(thresholds={"direction": 0.5})
        assert "Judged again by direction 0.5 (the run&#39;s: 0.25): no image was made." in report
        assert "Judged again" not in await run.report()
        kept = await run.export(tmp_path / "kept", thresholds={"direction": 0.47})
        assert len(list(kept.rglob("*.png"))) == own.yields["kept"].n
        assert dict(editor.calls) == calls

        with pytest.raises(
            InvalidRequest,
            match=r"no threshold is named 'directon' \(did you mean 'direction'\?\); there are direction",
        ):
            await run.summary(thresholds={"directon": 0.5})
        answer = await gateway.http.get(f"/v1/runs/{run.id}/summary", params={"direction": 1.5})
        assert answer.status_code == 422
        assert "direction" in answer.json()["detail"] + str(answer.json()["errors"])
