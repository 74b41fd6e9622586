"""``counterpose-services``: checks or starts the services on this machine; prints their Serve config."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import yaml

from counterpose_core.contract.field_errors import in_words
from counterpose_core.errors import CounterposeError
from counterpose_services.models.device import require_devices
from counterpose_services.models.preflight import require_licences, require_room
from counterpose_services.models.weight_loading import telling
from counterpose_services.models.weights import require_weights
from counterpose_services.openai_api.requirements import require_servers
from counterpose_services.serving.cluster import running, services_url
from counterpose_services.serving.serve_config import config_problems, serve_config, services_of
from counterpose_services.settings import SERVICES, ServiceSettings

EXIT_WRONG, EXIT_USAGE, EXIT_FAILED = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return 0 for success, 1 if a check failed, 2 for wrong settings, 3 for a failure."""
    given = _parser().parse_args(arguments)
    try:
        settings = _settings(given)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"counterpose-services: {in_words(error)}\n")
        return EXIT_USAGE
    except CounterposeError as error:
        # Whether a service may have no replica is a question about its suite.
        sys.stderr.write(f"counterpose-services: {error.detail}\n")
        return EXIT_USAGE
    try:
        if given.verb == "check":
            return check(settings, given)
        if given.check is not None:
            return check_config(given.check)
        verbs = {"up": up, "config": config}
        verbs[given.verb](settings, given)
    except CounterposeError as error:
        sys.stderr.write(f"counterpose-services: {error.detail}\n")
        return EXIT_FAILED
    return 0


def up(settings: ServiceSettings, given: argparse.Namespace) -> None:
    """Start the services and wait for a signal to stop them; `counterpose up` leaves them running."""
    services = given.only or services_of(settings)
    require_licences(settings, services)
    require_weights(settings, services)
    require_servers(settings, services)
    require_devices(settings, services)
    require_room(settings, services)
    ended = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        ended.set()

    with telling(settings.state_dir) as told, running(settings, services):
        told()
        # Ray replaces these handlers when it starts.
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        sys.stdout.write(f"services answer at {services_url(settings)}\n")
        sys.stdout.flush()
        ended.wait()


def config(settings: ServiceSettings, given: argparse.Namespace) -> None:
    """Print the Serve config."""
    sys.stdout.write(
        yaml.safe_dump(serve_config(settings, given.only or services_of(settings)), sort_keys=False)
    )


def check_config(file: Path) -> int:
    """Print what is wrong with a Serve config that was written elsewhere; return 0 if nothing is, else 1."""
    try:
        problems = config_problems(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problems = [f"it cannot be read: {error}"]
    lines = [f"{file}: {problem}\n" for problem in problems] or [f"{file}: nothing is wrong\n"]
    sys.stdout.write("".join(lines))
    return EXIT_WRONG if problems else 0


def check(settings: ServiceSettings, given: argparse.Namespace) -> int:
    """Print what is found, what is missing and what fits; return 0 if nothing is wrong, else 1."""
    # numpy and safetensors are imported for this verb alone.
    from counterpose_services.serving.check import check_services, check_table

    found = check_services(settings, given.only or services_of(settings), load=given.load)
    sys.stdout.write(found.model_dump_json(indent=2) + "\n" if given.json else check_table(found))
    return 0 if found.ok else EXIT_WRONG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="counterpose-services", description=__doc__)
    parser.add_argument("verb", choices=["check", "up", "config"])
    parser.add_argument(
        "--only", action="append", choices=SERVICES, help="this service alone; may be repeated"
    )
    parser.add_argument(
        "--load", action="store_true", help="check: load each service's models and send one request"
    )
    parser.add_argument("--json", action="store_true", help="check: print JSON")
    parser.add_argument(
        "--check",
        type=Path,
        metavar="FILE",
        help="config: say what is wrong with this Serve config, instead of printing one",
    )
    parser.add_argument("--suite", help="a suite's name, or a TOML file")
    parser.add_argument("--port", type=int, help="where the one HTTP proxy listens")
    parser.add_argument("--state-dir", help="where the secret, the store and services.json lie")
    return parser


def _settings(given: argparse.Namespace) -> ServiceSettings:
    named = {"suite": given.suite, "port": given.port, "state_dir": given.state_dir}
    return ServiceSettings.model_validate({name: value for name, value in named.items() if value is not None})


if __name__ == "__main__":
    sys.exit(main())
