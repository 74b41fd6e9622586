"""A run with judges over HTTP: verdicts in items, summary, report and export, and the run judged again."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from counterpose import AsyncClient
from counterpose_core.contract.judges import Calibration
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.services.ports import Services
from fakes.gateway import fake_gateway
from fakes.pages import text_of
from fakes.ports import FakeEditor, fake_services
from fakes.world import FakeWorld, fake_suite
from unit.gateway.methods.stress_test.test_judges import ALL, Divided


def panel(world: FakeWorld) -> Services:
    """Services whose judges disagree."""
    return fake_services(world, scorer=Divided(world, {}, strict=True))


async def test_a_run_tells_what_its_judges_say_and_is_judged_again_without_them(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, ports=panel) as gateway:
        scorer = gateway.services.scorer
        assert isinstance(scorer, Divided)
        await gateway.upload("demo", 3)
        client = AsyncClient(http=gateway.http)
        run = await client.stress_tests.create(
            dataset="demo",
            classifiers=["steady", "leaning"],
            max_edits_per_image=5,
            lance_r_edits_per_image=0,
            judges=ALL,
            thresholds={"keep": 2},
            confirm=False,
            seed=3,
        )
        await gateway.worker().work_off()
        asked = len(scorer.asked)
        editor = gateway.services.editor
        assert isinstance(editor, FakeEditor)
        calls = dict(editor.calls)

        own = await run.summary()
        told = own.judges
        assert told is not None
        assert (told.rule, list(told.rows)) == ("2 of 3 say yes (clip, encoder, judge)", ALL)
        assert told.disagreements
        assert "The judges disagree on" in str(own)
        assert str(own).count("not calibrated") == 3
        strict = await run.summary(thresholds={"keep": 3})
        assert strict.judges is not None
        assert strict.judges.rule == "3 of 3 say yes (clip, encoder, judge)"
        assert strict.dropped["gate-judges"] > own.dropped.get("gate-judges", 0)
        honest = await run.summary(thresholds={"keep": 1, "without": "judge"})
        assert honest.judged_again is not None
        assert "Judged again by 1 of 2 say yes (clip, encoder, judge without a vote)" in str(honest)

        report = await run.report()
        page = text_of(report.partition('id="configuration"')[0])
        assert "Edits on which judges disagree" in page
        assert page.count("not calibrated") == 3
        assert "enough of the run's judges call the edit right" in page
        assert "3 of 3 say yes" in text_of(await run.report(thresholds={"keep": 3}))

        answer = await gateway.http.get(f"/v1/runs/{run.id}/export", params={"format": "imagefolder"})
        with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
            rows = [
                json.loads(line)
                for member in archive.getmembers()
                if member.name.endswith("metadata.jsonl")
                for line in archive.extractfile(member) or ()
            ]
        votes = {json.dumps(row).count('"judge judge"') for row in rows}
        assert votes == {1}
        assert (len(scorer.asked), dict(editor.calls)) == (asked, calls)

        with pytest.raises(InvalidRequest, match="3 of the judges are to say yes, and only 2 of") as refused:
            await run.summary(thresholds={"keep": 3, "without": "clip"})
        assert refused.value.pointer == "/keep"
        with pytest.raises(InvalidRequest, match="less than or equal to 3"):
            await run.summary(thresholds={"keep": 4})


async def test_a_judge_that_errs_too_often_is_named_where_the_report_asks_for_trust(tmp_path: Path) -> None:
    lies = Calibration.of([("yes", True)] * 60 + [("yes", False)] * 40, "ratings of two people")
    own = fake_suite()
    clip = Calibration.of([("yes", True)] * 40, "ratings of two people", own.scorer.gate)
    suite = own.model_copy(update={"calibrations": {"clip": clip, "judge": lies}})
    async with fake_gateway(tmp_path, ports=panel, suite=suite) as gateway:
        await gateway.upload("demo", 3)
        client = AsyncClient(http=gateway.http)
        run = await client.stress_tests.create(
            dataset="demo", classifiers=["steady"], judges=["clip", "judge"], confirm=False, seed=3
        )
        await gateway.worker().work_off()
        assert run.run.resolved_config["judged_by"] == {"judge": "vlm at judges.test"}
        page = text_of(await run.report())
        assert "more than a tenth of the votes of judge are wrong" in page
        assert "look at the controls" in page
        assert "against ratings of two people (intervals take edits as independent" in page
        assert "not calibrated" not in page
        by_others = text_of(await run.report(thresholds={"direction": 0.21}))
        assert by_others.count("not calibrated at these thresholds") == 1
        alone = text_of(await run.report(thresholds={"without": "judge"}))
        assert "votes of judge are wrong" not in alone
        assert "no vote" in alone


async def test_a_rule_that_nothing_can_meet_and_a_judge_that_the_suite_lacks_start_nothing(
    tmp_path: Path,
) -> None:
    suite = fake_suite().model_copy(update={"encoder": None})
    async with fake_gateway(tmp_path, suite=suite) as gateway:
        await gateway.upload("demo", 3)
        body = {"dataset": "demo", "classifiers": ["steady"], "seed": 1}
        for own, said, pointer in (
            (
                {"judges": ["clip", "judge"], "thresholds": {"keep": 3}},
                "/thresholds/keep: 3 of the judges are to say yes, and only 2 of 'clip', 'judge' vote",
                "/thresholds/keep",
            ),
            (
                {"thresholds": {"without": "judge"}},
                "/thresholds/without: the judge 'judge' is none of the run's",
                "/thresholds/without",
            ),
            ({"thresholds": {"without": "clip"}}, "only 0 of 'clip' vote", "/thresholds/without"),
            (
                {"judges": ["clip", "nobody"]},
                "/judges/1: must be 'clip', 'encoder' or 'judge'",
                "/judges/1",
            ),
            (
                {"judges": ["clip", "encoder"]},
                "the suite 'miniature' has no judge 'encoder'",
                "/judges",
            ),
        ):
            answer = await gateway.http.post("/v1/stress-tests", json=body | own)
            assert answer.status_code == 422
            assert said in answer.json()["detail"]
            assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]
        assert (await gateway.http.get("/v1/runs")).json()["runs"] == []
