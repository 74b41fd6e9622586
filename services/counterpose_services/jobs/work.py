"""``python -m counterpose_services.jobs.work``: the driver of a Ray job, which starts the job's workers.

It runs on a node of the cluster, where Ray has started it as a job's entrypoint. What it works on and whether
that has ended is in the ledger, which each worker reads by itself: so the driver has no state, and losing it,
an actor or a node loses the items that were leased just then.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any

from counterpose_processes.supervised import Supervised
from counterpose_services.jobs.worker import PROGRAM, JobWorker, gateway_program

END_S = 20.0
"""How long workers have to end by themselves when the job has: an item in hand may be finished."""

_log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Start the workers, and return when the job has ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    arguments = _parser().parse_args(argv)
    part = ["work", "--job", arguments.job, "--attempt", str(arguments.attempt)]
    program = gateway_program()
    # Ray reads the environment on import; its address there is the cluster's that runs this job.
    import ray

    ray.init(log_to_driver=False)
    # Ray's decorator hides the remote methods from the type checker.
    worker: Any = ray.remote(JobWorker).options(
        num_cpus=arguments.cpus,
        # Whatever dies is started again, on another node if need be; all that it did is in the ledger.
        max_restarts=-1,
        max_task_retries=-1,
        scheduling_strategy="SPREAD",
    )
    ended = [worker.remote().work.remote(part) for _ in range(arguments.workers)]
    _log.info("job %s, attempt %d: %d workers", arguments.job, arguments.attempt, arguments.workers)
    # Here and not in a worker: the attempt lives even while no node has room for one.
    Supervised(PROGRAM, [program, *part, "--follow-only"]).keep()
    ray.wait(ended, num_returns=len(ended), timeout=END_S)
    ray.shutdown()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Start the workers of a job on this Ray cluster.")
    parser.add_argument("--job", required=True, help="id of the job in the ledger")
    parser.add_argument("--attempt", type=int, required=True, help="number of this attempt")
    parser.add_argument("--workers", type=int, required=True, help="workers to start")
    parser.add_argument("--cpus", type=float, default=1.0, help="CPUs that Ray reserves for each")
    return parser


if __name__ == "__main__":
    sys.exit(main())
