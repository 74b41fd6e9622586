"""One survey from request to export, over HTTP and by the worker; prints the answers as JSON."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

from fakes.gateway import FakeGateway, fake_gateway

BODY = {"dataset": "demo", "classifiers": ["steady"]}
KEY = {"idempotency-key": "one-survey"}


async def story(folder: Path) -> dict[str, Any]:
    """Ask for a survey twice under one key, work on it, and read all that the gateway tells of it."""
    async with fake_gateway(folder) as gateway:
        await gateway.upload("demo", 2)
        created, repeated = [
            await gateway.http.post("/v1/confidence-surveys", json=BODY, headers=KEY) for _ in "12"
        ]
        await gateway.worker().work_off()
        run = created.headers["location"]
        told = await _read(gateway, run)
    return told | {"created": created.status_code, "same_run": created.json()["id"] == repeated.json()["id"]}


async def _read(gateway: FakeGateway, run: str) -> dict[str, Any]:
    answers = {
        name: await gateway.http.get(f"{run}{path}")
        for name, path in {
            "run": "", "summary": "/summary", "items": "/items", "results": "/results", "report": "/report",
            "export": "/export",
        }.items()
    }  # fmt: skip
    elsewhere = await gateway.http.get(f"{run}/findings/1")
    with tarfile.open(fileobj=io.BytesIO(answers["export"].content)) as tar:
        members = tar.getnames()
    return {
        "statuses": {name: answer.status_code for name, answer in answers.items()},
        "elsewhere": elsewhere.status_code,
        "location": run,
        "run": answers["run"].json(),
        "summary": answers["summary"].json(),
        "item_kinds": sorted({item["kind"] for item in answers["items"].json()["items"]}),
        "last_line": json.loads(answers["results"].text.splitlines()[-1]),
        "report": answers["report"].text,
        "exported": members,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(story(Path(sys.argv[1])))))
