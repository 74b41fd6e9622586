"""Makes the client of a suite's language model server: one that is listed, or a vLLM beside the replica."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

from counterpose_core.errors import BackendUnavailable, UnknownModel
from counterpose_core.secret_files import read_secret
from counterpose_core.types import is_loopback
from counterpose_processes.ports import answers, free_port
from counterpose_processes.supervised import Supervised
from counterpose_services.openai_api.server import SETTINGS, OpenAIServer
from counterpose_services.openai_api.vllm import VllmModel, require_program, vllm_command, vllm_environment
from counterpose_services.outbound.calls import AnswerLimits, outbound_client
from counterpose_services.outbound.hosts import require_host
from counterpose_services.settings import ServiceName, ServiceSettings

HEALTH = "/health"
"""The path that answers 200 when vLLM is ready."""


def listed_server(url: str, settings: ServiceSettings) -> OpenAIServer:
    """Return the client of a server that a suite names and the operator lists.

    Raises:
        UnknownModel: its host is not listed, or its key would travel in plain text.
    """
    require_host(url, settings.openai_hosts, use="language models", setting=f"{SETTINGS}_HOSTS")
    parts, key = urlsplit(url), _read_key(settings)
    if key is not None and parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise UnknownModel(f"{url!r} would get its key in plain text; use https, or no key")
    return _client(url, settings, key=key)


def _read_key(settings: ServiceSettings) -> str | None:
    if settings.openai_key_file is None:
        return None
    try:
        return read_secret(settings.openai_key_file, variable=f"{SETTINGS}_KEY_FILE")
    except ValueError as error:
        raise UnknownModel(f"the key of the language model's server cannot be read: {error}") from error


def vllm_server(service: ServiceName, model: VllmModel, settings: ServiceSettings) -> OpenAIServer:
    """Start ``vllm serve`` beside this replica, wait until it answers, and return its client.

    Raises:
        UnknownModel: there is no program vllm.
        BackendUnavailable: it ended, or does not answer in time.
    """
    program, key = require_program(settings.vllm, service), secrets.token_hex(32)
    name, port = f"vLLM of the {service}", free_port()
    url = f"http://127.0.0.1:{port}/v1"

    def ready() -> bool:
        if not answers(port, HEALTH):
            return False
        _warm_up(_client(url, settings, key=key, name=name), model)
        return True

    supervised = Supervised(
        name,
        vllm_command(program, model, port, further=settings.vllm_arguments),
        environment=vllm_environment(model, key=key, threads=settings.threads),
        ready=ready,
        failure=BackendUnavailable,
    )
    supervised.start()
    return _client(url, settings, key=key, name=name, supervised=supervised)


def _warm_up(server: OpenAIServer, model: VllmModel) -> None:
    """Send the first request of each kind, for which a server compiles for seconds: it is not a caller's."""
    two = {"prompt": [0, 0], "seed": 0, "temperature": 1.0}
    try:
        server.completion(two | {"model": model.name, "max_tokens": 0, "echo": True, "logprobs": 0})
        for name in (model.name, *model.adapters):
            server.completion(two | {"model": name, "max_tokens": 2})
    finally:
        server.close()


def _client(
    url: str,
    settings: ServiceSettings,
    *,
    key: str | None,
    name: str | None = None,
    supervised: Supervised | None = None,
) -> OpenAIServer:
    limits = AnswerLimits(settings.openai_seconds, settings.openai_answer_bytes)
    return OpenAIServer(
        url,
        outbound_client(limits, connections=settings.openai_in_flight),
        limits=limits,
        in_flight=settings.openai_in_flight,
        key=key,
        name=name,
        supervised=supervised,
    )
