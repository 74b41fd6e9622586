"""``python -m fakes.ray_node ARGUMENTS``: one Ray node, whose processes are this process's descendants.

``ARGUMENTS`` is JSON: the fields of Ray's parameters, and ``head``. When the node runs, its addresses are
printed as one line of JSON. It ends, with all of its processes, when its standard input ends: so it does not
outlive a test that is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import ray
from ray._private.node import Node
from ray._private.parameter import RayParams

from fakes.process_trees import kill_all_below


def main(arguments: str) -> None:
    """Start the node, tell where it is, and end with the process that started this one."""
    given = json.loads(arguments)
    head = given.pop("head")
    # The reaper would end the node when one of its processes is killed, which is for the test to see.
    try:
        node = Node(RayParams(**given), head=head, shutdown_at_exit=False, spawn_reaper=False)
    except Exception:
        kill_all_below(os.getpid())
        raise
    told = {
        "gcs": node.gcs_address,
        "node": node.node_id,
        "dashboard": node.webui_url,
        "ray": ray.__version__,
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    # The kernel buries its children: Ray's workers take a raylet that nobody buried for alive.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdin.read()
    kill_all_below(os.getpid())
    shutil.rmtree(Path(given["temp_dir"]).parent if head else given["temp_dir"], ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
