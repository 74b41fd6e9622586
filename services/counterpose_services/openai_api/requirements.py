"""What a suite's servers of language models and images need before anything is started."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.suite import CaptionerSuite, PerturberSuite, Suite, load_suite
from counterpose_services.openai_api.terms import image_terms, language_terms
from counterpose_services.openai_api.vllm import require_program
from counterpose_services.settings import ServiceName, ServiceSettings


def require_servers(settings: ServiceSettings, services: Sequence[ServiceName]) -> None:
    """Check the servers of all these services; raises as `require_server` does."""
    suite = load_suite(settings.suite, settings)
    for service in services:
        require_server(service, suite, settings)


def require_server(service: ServiceName, suite: Suite, settings: ServiceSettings) -> None:
    """Raise an error if a service's model can have no server.

    Raises:
        UnknownModel: the suite has no such service, there is no program vllm, or the server's host is not
            listed.
    """
    if service == "editor":
        if (address := suite.editor.server) is not None:
            image_terms(settings).require_listed(address)
        return
    if service == "scorer" and suite.judge is not None:
        language_terms(settings).require_listed(suite.judge.server)
    if service == "classifiers":
        for chat in suite.chat.values():
            language_terms(settings).require_listed(chat.server)
    part = None if service in ("scorer", "classifiers") else getattr(suite, service)
    if not isinstance(part, PerturberSuite | CaptionerSuite):
        return
    if part.engine == "vllm":
        require_program(settings.vllm, service)
    elif part.server is not None:
        language_terms(settings).require_listed(part.server)
