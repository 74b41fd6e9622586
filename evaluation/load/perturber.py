"""Group `perturber`: what our layer adds to the answers of a language model's server.

A server in vLLM's place answers after 300 ms. Clients ask it, and in turn the perturber's service on Ray
Serve, which asks it: the difference of the medians is ours, with Serve's proxy.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import httpx

from counterpose_core.contract.base import SECRET_HEADER
from counterpose_processes.ports import free_port
from evaluation.load.gateway_programs import (
    Program,
    program,
    state_folder,
    wait_until_answered,
)
from evaluation.load.http_clients import Answer, ask_at_rate, ask_in_turn, request
from evaluation.load.measuring import Load, quantile, row
from evaluation.load.report import LoadRow
from evaluation.load.slow_model import SECONDS

GROUP = "perturber"
IN_FLIGHT = 32
TARGET_MS = 15.0
START_SECONDS = 180.0
PAUSE_SECONDS = 0.2
EXPECTED_SECONDS = 0.01
"""About what our layer adds."""
OK, PROBLEM = 200, b'"problem":{'
CAPTION = "a photo of a red boat on the sea"


def perturber(load: Load) -> Iterator[LoadRow]:
    """Yield what our layer adds to an answer, with many calls in flight and with one."""
    state = state_folder(load.folder / "state")
    server, services = free_port(), free_port()
    environment = {
        "COUNTERPOSE_SUITE": str(_suite(load.folder, server)),
        "COUNTERPOSE_STATE_DIR": str(state),
        "COUNTERPOSE_SERVICES_PORT": str(services),
        "COUNTERPOSE_SERVICES_OPENAI_HOSTS": f"127.0.0.1:{server}",
    }
    up = ("counterpose_services.serving.launcher", "up", "--only", "perturber")
    slow = ("evaluation.load.slow_model", str(server))
    with (
        program(*slow, environment={}, log=load.folder / "model.log") as model,
        program(*up, environment=environment, log=load.folder / "services.log") as launcher,
    ):
        wait_until_answered(server, model)
        _wait_for_service(services, launcher)
        yield from _measured(server, services, (state / "secret").read_text(encoding="utf-8"), load.quick)


def _suite(folder: Path, server: int) -> Path:
    served = f'[perturber]\nengine = "openai"\nserver = "http://127.0.0.1:{server}/v1"\n'
    text = (resources.files("counterpose_core") / "suites" / "miniature.toml").read_text(encoding="utf-8")
    text = text.replace("[perturber]\n", served).replace('prompt = "compact"', 'prompt = "instruction"')
    file = folder / "served.toml"
    file.write_text(text, encoding="utf-8")
    return file


def _wait_for_service(port: int, of: Program) -> None:
    with httpx.Client(trust_env=False) as http:
        for _ in range(round(START_SECONDS / PAUSE_SECONDS)):
            try:
                if http.get(f"http://127.0.0.1:{port}/perturber/healthz").is_success:
                    return
            except httpx.TransportError:
                pass
            if of.has_ended():
                break
            _sleep()
    raise RuntimeError(f"the perturber did not answer within {START_SECONDS:g} s; load {os.getloadavg()}")


def _sleep() -> None:
    asyncio.run(asyncio.sleep(PAUSE_SECONDS))


def _measured(server: int, services: int, secret: str, quick: bool) -> Iterator[LoadRow]:
    item = {"caption": CAPTION, "perturbation_type": "subject", "n": 1, "seed": 7}
    ours = request("POST", "/perturber/v1/perturb", {"items": [item]}, {SECRET_HEADER: secret})
    bare = request("POST", "/v1/completions", {"model": "perturber", "prompt": CAPTION, "max_tokens": 26})
    slices, seconds = (2, 2.0) if quick else (5, 4.0)
    # The first calls start threads and connections.
    _in_step(services, ours, IN_FLIGHT, 2.0)
    # Answers of all lengths come back at all times. If all take as long, clients that wait for each other's
    # calls stay in step for ever: that row tells what so many calls at one instant take.
    ways: dict[str, Callable[[int, bytes], list[Answer]]] = {
        f"{IN_FLIGHT} in flight": lambda port, sent: _evenly(port, sent, seconds),
        f"{IN_FLIGHT} at one instant": lambda port, sent: _in_step(port, sent, IN_FLIGHT, seconds),
        "1 in flight": lambda port, sent: _in_step(port, sent, 1, seconds),
    }
    for named, ask in ways.items():
        added: list[float] = []
        late: list[float] = []
        for _ in range(slices):
            # In turn, so that both meet the same load of the machine.
            alone, through = _milliseconds(ask(server, bare)), _milliseconds(ask(services, ours))
            added.append(statistics.median(through) - statistics.median(alone))
            late.append(quantile(through, 0.99) - statistics.median(alone))
        target = TARGET_MS if named == f"{IN_FLIGHT} in flight" else None
        of = f"added to an answer after 300 ms, {named}"
        yield row(GROUP, f"{of}: median", "ms", added, meets=(), target=target)
        yield row(GROUP, f"{of}: p99", "ms", late, meets=())


def _evenly(port: int, sent: bytes, seconds: float) -> list[Answer]:
    """Ask at the rate that keeps about so many in flight, each when it is due."""
    rate = IN_FLIGHT / (SECONDS + EXPECTED_SECONDS)
    asking = ask_at_rate(port, lambda _: sent, rate=rate, seconds=seconds, connections=2 * IN_FLIGHT)
    return _checked(asyncio.run(asking))


def _in_step(port: int, sent: bytes, in_flight: int, seconds: float) -> list[Answer]:
    return _checked(asyncio.run(ask_in_turn(port, sent, connections=in_flight, seconds=seconds)))


def _checked(answers: list[Answer]) -> list[Answer]:
    if failed := [each for each in answers if each.status != OK or PROBLEM in each.body]:
        told = f"{failed[0].status} {failed[0].body[:300]!r}"
        raise RuntimeError(f"{len(failed)} of {len(answers)} calls failed: {told}")
    return answers


def _milliseconds(answers: list[Answer]) -> list[float]:
    return [1000 * each.seconds for each in answers]
