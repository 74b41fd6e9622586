"""The actor of a Ray job that keeps one worker of the gateway."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from counterpose_core.installation import adding
from counterpose_processes.supervised import Supervised

PROGRAM = "counterpose-gateway"
"""The program that works. It is started by its name: the services do not import the gateway."""


class JobWorker:
    """An actor that works until its job has ended; Ray starts it again elsewhere when it or its node dies."""

    def work(self, arguments: Sequence[str]) -> None:
        """Keep a worker running with these arguments until it ends by itself."""
        Supervised(PROGRAM, [gateway_program(), *arguments]).keep()


def gateway_program() -> str:
    """Return the path of the gateway's program on this node.

    Raises:
        FileNotFoundError: it is not installed here.
    """
    beside = str(Path(sys.executable).parent)
    found = shutil.which(PROGRAM, path=os.pathsep.join((beside, os.environ.get("PATH", os.defpath))))
    if found is None:
        raise FileNotFoundError(
            f"{PROGRAM} is not installed on this node, but a job's workers need the gateway's packages: "
            f"{adding('services,gateway,s3')}"
        )
    return found
