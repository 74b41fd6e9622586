"""What the operator permits at servers of one use: their hosts, their key, and how much of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from counterpose_services.outbound.calls import AnswerLimits
from counterpose_services.outbound.hosts import require_host
from counterpose_services.settings import ServiceSettings


@dataclass(frozen=True)
class ServerTerms:
    """The settings of one use of servers, which begin with ``prefix``; errors call it ``use``."""

    use: str
    prefix: str
    hosts: tuple[str, ...]
    key_file: Path | None
    limits: AnswerLimits
    in_flight: int

    def require_listed(self, url: str) -> None:
        """Raise UnknownModel unless the operator lists the host of ``url``."""
        require_host(url, self.hosts, use=self.use, setting=f"{self.prefix}_HOSTS")


def language_terms(settings: ServiceSettings) -> ServerTerms:
    """Return what is permitted at servers of language models."""
    return ServerTerms(
        use="language models",
        prefix="COUNTERPOSE_SERVICES_OPENAI",
        hosts=(*settings.openai_hosts, *_host(settings.language_server)),
        key_file=settings.openai_key_file,
        limits=AnswerLimits(settings.openai_seconds, settings.openai_answer_bytes),
        in_flight=settings.openai_in_flight,
    )


def image_terms(settings: ServiceSettings) -> ServerTerms:
    """Return what is permitted at servers of images: a key of their own, which no other server gets."""
    return ServerTerms(
        use="images",
        prefix="COUNTERPOSE_SERVICES_IMAGES",
        hosts=(*settings.images_hosts, *_host(settings.images_server)),
        key_file=settings.images_key_file,
        limits=AnswerLimits(settings.images_seconds, settings.images_answer_bytes),
        in_flight=settings.images_in_flight,
    )


def _host(server: str | None) -> tuple[str, ...]:
    """Return the host of an address that the operator's own settings name, which lists it."""
    return () if server is None else (urlsplit(server).netloc,)
