"""What both clients are made of: where they connect, as whom, and how often they try."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import httpx

from faultline._local_functions import LocalFunctions
from faultline._retries import RetryPolicy
from faultline_core.errors import InvalidRequest

H = TypeVar("H", bound=httpx.Client | httpx.AsyncClient)

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_S = 60.0
URL_VARIABLE = "FAULTLINE_URL"
KEY_VARIABLE = "FAULTLINE_API_KEY"


class BaseClient(ABC, Generic[H]):
    """The settings of a client; ``H`` is the httpx client it sends with."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        retries: RetryPolicy | None = None,
        http: H | None = None,
    ) -> None:
        self.retries = retries or RetryPolicy()
        # A client that was brought along keeps its address, key and time-out: whoever made it chose them.
        self._http = self._connect(_url(base_url), timeout, _headers(api_key)) if http is None else http
        self._functions = LocalFunctions()

    def served(self, classifiers: Sequence[str]) -> list[str]:
        """Serve the Python functions among ``classifiers`` until this client is closed.

        Returns what the gateway is to be told: an address on this machine for each ``py:module:function``.

        Raises:
            InvalidRequest: the gateway is on another machine, or a function cannot be used.
        """
        return self._functions.served(classifiers, self._http.base_url)

    @abstractmethod
    def _connect(self, base_url: httpx.URL, timeout: float, headers: Mapping[str, str]) -> H: ...


def _headers(api_key: str | None) -> dict[str, str]:
    key = api_key if api_key is not None else os.environ.get(KEY_VARIABLE)
    return {} if key is None else {"authorization": f"Bearer {key}"}


def _url(base_url: str | None) -> httpx.URL:
    # An empty variable counts as unset: that is how a shell script takes a setting back.
    url = base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    try:
        return httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidRequest(f"{url!r} is no address: {error}") from error
