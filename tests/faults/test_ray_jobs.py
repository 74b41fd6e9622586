"""A run as a Ray job on a cluster of several nodes."""

from __future__ import annotations

from pathlib import Path

from fakes.cluster_jobs import ITEMS, job_stack
from fakes.postgres import postgres
from fakes.processes import look_until
from faultline_core.types import FINAL_JOB_STATES


def test_a_job_works_off_its_run_and_ends(tmp_path: Path) -> None:
    with postgres() as server, job_stack(server.empty_database(), tmp_path / "state") as stack:
        stack.upload()
        job = stack.submit()
        look_until(lambda: stack.ledger.job(job.id).state in FINAL_JOB_STATES)
        ended = stack.ledger.job(job.id)
        assert ended.state == "completed", ended
        assert ended.run is not None
        run = stack.ledger.run(ended.run)
        assert (run.state, run.request_counts.total) == ("completed", ITEMS)
        assert stack.ledger.audit(run.id) == []
        assert [attempt.number for attempt in ended.attempts] == [1]
        with stack.cluster.http() as http:
            told = http.get(f"/api/jobs/{ended.attempts[0].submission_id}").json()
        assert told["status"] == "SUCCEEDED", told
