"""Makes the client of a suite's server: one that is listed, or a vLLM beside the replica."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

from counterpose_core.errors import BackendUnavailable, UnknownModel
from counterpose_core.secret_files import read_secret
from counterpose_core.types import is_loopback
from counterpose_processes.ports import answers, free_port
from counterpose_processes.supervised import Supervised
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.openai_api.terms import ServerTerms, language_terms
from counterpose_services.openai_api.vllm import VllmModel, require_program, vllm_command, vllm_environment
from counterpose_services.outbound.calls import outbound_client
from counterpose_services.settings import ServiceName, ServiceSettings

HEALTH = "/health"
"""The path that answers 200 when vLLM is ready."""


def listed_server(url: str, terms: ServerTerms) -> OpenAIServer:
    """Return the client of a server that a suite names and the operator's ``terms`` list.

    Raises:
        UnknownModel: its host is not listed, or its key would travel in plain text.
    """
    terms.require_listed(url)
    parts, key = urlsplit(url), _read_key(terms)
    if key is not None and parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise UnknownModel(f"{url!r} would get its key in plain text; use https, or no key")
    return _client(url, terms, key=key)


def _read_key(terms: ServerTerms) -> str | None:
    if terms.key_file is None:
        return None
    try:
        return read_secret(terms.key_file, variable=f"{terms.prefix}_KEY_FILE")
    except ValueError as error:
        raise UnknownModel(f"the key of the server of {terms.use} cannot be read: {error}") from error


def vllm_server(service: ServiceName, model: VllmModel, settings: ServiceSettings) -> OpenAIServer:
    """Start ``vllm serve`` beside this replica, wait until it answers, and return its client.

    Raises:
        UnknownModel: there is no program vllm.
        BackendUnavailable: it ended, or does not answer in time.
    """
    program, key = require_program(settings.vllm, service), secrets.token_hex(32)
    name, port = f"vLLM of the {service}", free_port()
    url, terms = f"http://127.0.0.1:{port}/v1", language_terms(settings)

    def ready() -> bool:
        if not answers(port, HEALTH):
            return False
        _warm_up(_client(url, terms, key=key, name=name), model)
        return True

    supervised = Supervised(
        name,
        vllm_command(program, model, port, further=settings.vllm_arguments),
        environment=vllm_environment(model, key=key, threads=settings.threads),
        ready=ready,
        failure=BackendUnavailable,
    )
    supervised.start()
    return _client(url, terms, key=key, name=name, supervised=supervised)


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
    terms: ServerTerms,
    *,
    key: str | None,
    name: str | None = None,
    supervised: Supervised | None = None,
) -> OpenAIServer:
    return OpenAIServer(
        url,
        outbound_client(terms.limits, connections=terms.in_flight),
        limits=terms.limits,
        in_flight=terms.in_flight,
        prefix=terms.prefix,
        key=key,
        name=name,
        supervised=supervised,
    )
