"""``python -m fakes.worker_program FOLDER``: the real ``counterpose-gateway work`` over fake services.

The state folder is FOLDER; what its images show is in FOLDER/shown. Classifiers take FAKE_CLASSIFY_SECONDS
for a call, so that there is a middle of a run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse
from counterpose_gateway import main as program
from fakes.ports import FakeClassifiers, fake_services
from fakes.shared_world import KeptShown, SharedStore
from fakes.world import FakeWorld


class SlowClassifiers(FakeClassifiers):
    """The fake, which takes its time."""

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict each image."""
        await asyncio.sleep(float(os.environ.get("FAKE_CLASSIFY_SECONDS", "0")))
        return await super().classify(request)


def main(folder: Path) -> int:
    """Work until a signal, and return the exit code."""
    os.environ["COUNTERPOSE_STATE_DIR"] = str(folder)
    store = SharedStore(BlobStore(str(folder / "store")))
    world = FakeWorld(store=store, shown=KeptShown(folder / "shown"))
    services = fake_services(world, classifiers=SlowClassifiers(world))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "services_of", lambda caller: services)
        return program.main(["work"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
