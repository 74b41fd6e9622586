"""``python -m fakes.worker_program FOLDER``: the real ``faultline-gateway work`` over fake services.

The state folder is FOLDER; what its images show is in FOLDER/shown.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fakes.ports import fake_services
from fakes.shared_world import KeptShown, SharedStore
from fakes.world import FakeWorld
from faultline_core.blobs import BlobStore
from faultline_gateway import main as program


def main(folder: Path) -> int:
    """Work until a signal, and return the exit code."""
    os.environ["FAULTLINE_STATE_DIR"] = str(folder)
    store = SharedStore(BlobStore(str(folder / "store")))
    world = FakeWorld(store=store, shown=KeptShown(folder / "shown"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "services_of", lambda caller: fake_services(world))
        return program.main(["work"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
