"""The Hub by its own client, whose errors become Counterpose's."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from counterpose._version import __version__
from counterpose_core.errors import BackendUnavailable, Forbidden, InvalidRequest, NotFound, Unauthorized

_CALLER = "counterpose"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Hub:
    """One Hub and the token that it is spoken to with; the gateway's key is not known here.

    ``api`` is huggingface_hub's ``HfApi``, ``package`` the module itself.
    """

    api: Any
    package: Any

    @property
    def address(self) -> str:
        """The Hub's address."""
        return str(self.api.endpoint)

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
            if not self._is_of_hub(error):
                raise
            raise self._ours(error, repository, doing) from error

    def _is_of_hub(self, error: BaseException) -> bool:
        origin = type(error).__module__.partition(".")[0]
        if origin in ("huggingface_hub", "httpx2", "httpcore2", "httpx", "hf_xet"):
            return True
        # Its client raises plain ones too, of which some wrap those of the connection.
        return isinstance(error, (ValueError, RuntimeError, OSError))

    def _ours(self, error: Exception, repository: str, doing: str) -> Exception:
        status = getattr(getattr(error, "response", None), "status_code", None)
        why = f"{type(error).__name__}: {error.__cause__ or error}".strip()
        match status:
            case 401:
                return Unauthorized(
                    f"{self.address} does not know the token, or hides {repository!r} from it: give the "
                    "token of an account that may write there (HF_TOKEN, `hf auth login`, or token=...)"
                )
            case 403:
                return Forbidden(
                    f"the token may not write to {repository!r} on {self.address}: name a repository of "
                    "yours, or take a token with the right to write"
                )
            case 404:
                return NotFound(f"{self.address} has no repository {repository!r}: check its name")
            case int() if 400 <= status < 500 and status not in (408, 429):
                return InvalidRequest(f"{self.address} refused {repository!r}: {why}")
        if status is None and isinstance(error, ValueError):
            return InvalidRequest(f"cannot write to {repository!r}: {why}")
        return BackendUnavailable(f"{doing} broke off: {why}")


def check_repository(repo_id: str) -> None:
    """Reject a repository without its owner.

    Raises:
        InvalidRequest: it is not ``owner/name``.
    """
    if not _REPOSITORY.fullmatch(repo_id):
        raise InvalidRequest(f"{repo_id!r} is no repository of the Hub: name its owner too, as owner/name")


def open_hub(token: str | None, endpoint: str | None) -> Hub:
    """Open the Hub.

    Args:
        token: of an account there; None for what huggingface_hub finds, in ``HF_TOKEN`` or from
            ``hf auth login``.
        endpoint: the Hub's address; None for ``HF_ENDPOINT``, else the public one.

    Raises:
        InvalidRequest: huggingface_hub is not installed, or there is no token.
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
    api = package.HfApi(endpoint=endpoint, token=known, library_name=_CALLER, library_version=__version__)
    return Hub(api, package)
