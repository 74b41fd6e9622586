"""The Hub by its own client, whose errors become Counterpose's."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from counterpose._version import __version__
from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    Forbidden,
    InvalidRequest,
    NotFound,
    Unauthorized,
)

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_PACKAGES = ("huggingface_hub", "httpx2", "httpcore2", "httpx", "hf_xet")
_REFUSALS: dict[int | None, tuple[type[CounterposeError], str]] = {
    401: (
        Unauthorized,
        "{hub} does not know the token, or hides {repository!r} from it: give the token of an account that "
        "may write there (HF_TOKEN, `hf auth login`, or token=...)",
    ),
    403: (
        Forbidden,
        "the token may not write to {repository!r} on {hub}: name a repository of yours, or take a token "
        "with the right to write",
    ),
    404: (NotFound, "{hub} has no repository {repository!r}: check its name"),
}


class Hub(NamedTuple):
    """One Hub and the token that it is spoken to with; the gateway's key is not known here.

    ``api`` is huggingface_hub's ``HfApi``, ``package`` the module itself.
    """

    api: Any
    package: Any

    @contextmanager
    def speaking(self, repository: str, doing: str) -> Iterator[None]:
        """Turn errors of the Hub and its client into ours.

        Args:
            repository: what is written to.
            doing: what was tried, and what to do again if it breaks off.

        Raises:
            Unauthorized: the Hub does not know the token, or hides the repository from it.
            Forbidden: the token may not write there.
            NotFound: there is no such repository.
            InvalidRequest: the Hub refuses what it was sent.
            BackendUnavailable: the Hub does not answer, or fails.
        """
        try:
            yield
        except Exception as error:
            # Its client raises plain errors too, of which some wrap those of the connection.
            is_plain = isinstance(error, (ValueError, RuntimeError, OSError))
            if not is_plain and type(error).__module__.partition(".")[0] not in _PACKAGES:
                raise
            status = getattr(getattr(error, "response", None), "status_code", None)
            why = f"{type(error).__name__}: {error.__cause__ or error}".strip()
            if status in _REFUSALS:
                kind, text = _REFUSALS[status]
                raise kind(text.format(hub=self.api.endpoint, repository=repository)) from error
            is_refused = isinstance(error, ValueError) if status is None else 400 <= status < 500
            if is_refused and status not in (408, 429):
                raise InvalidRequest(f"{repository!r} cannot be written to: {why}") from error
            raise BackendUnavailable(f"{doing} broke off: {why}") from error


def open_hub(token: str | None, endpoint: str | None, *repositories: str) -> Hub:
    """Open the Hub.

    Args:
        token: of an account there; None for what huggingface_hub finds, in ``HF_TOKEN`` or from
            ``hf auth login``.
        endpoint: the Hub's address; None for ``HF_ENDPOINT``, else the public one.
        repositories: what will be named to it.

    Raises:
        InvalidRequest: huggingface_hub is not installed, there is no token, or a repository is not
            ``owner/name``.
    """
    try:
        package = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise InvalidRequest(
            "the Hub needs huggingface_hub, which is not installed: pip install 'counterpose[hub]'"
        ) from error
    known = token or package.get_token()
    if not known:
        raise InvalidRequest(
            "the Hub takes nothing without a token: set HF_TOKEN, log in with `hf auth login`, or give "
            "token=...; one with the right to write is made on the Hub's page of access tokens"
        )
    for name in repositories:
        if not _REPOSITORY.fullmatch(name):
            raise InvalidRequest(f"{name!r} is no repository of the Hub: name its owner too, as owner/name")
    api = package.HfApi(
        endpoint=endpoint, token=known, library_name="counterpose", library_version=__version__
    )
    return Hub(api, package)
