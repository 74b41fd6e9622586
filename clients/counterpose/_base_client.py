"""What both clients share: address, API key, timeout and retries."""

from __future__ import annotations

import copy
import dataclasses
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import httpx

from counterpose._calls import Call
from counterpose._python_function.local_functions import LocalFunctions, NamedClassifiers
from counterpose._retries import RetryPolicy
from counterpose._version import __version__
from counterpose_core.contract.base import TRACE_HEADER
from counterpose_core.errors import InvalidRequest
from counterpose_core.tracing import ENDPOINT_VARIABLE, Tracing, tracing_to

if TYPE_CHECKING:
    from counterpose._python_function.model import AnyClassifier

H = TypeVar("H", bound=httpx.Client | httpx.AsyncClient)

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT_S = 60.0
URL_VARIABLE = "COUNTERPOSE_URL"
KEY_VARIABLE = "COUNTERPOSE_API_KEY"
USER_AGENT = f"counterpose/{__version__} python/{platform.python_version()} httpx/{httpx.__version__}"


class BaseClient(ABC, Generic[H]):
    """A client's settings; ``H`` is the httpx client that it sends with."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float | None = None,
        retries: RetryPolicy | None = None,
        http: H | None = None,
    ) -> None:
        self.retries = retries or RetryPolicy()
        if http is None:
            seconds = DEFAULT_TIMEOUT_S if timeout is None else timeout
            http = self._connect(_url(base_url), seconds, _headers(api_key))
        else:
            _check_unset(base_url=base_url, api_key=api_key, timeout=timeout)
        self._http = http
        self._functions = LocalFunctions()
        self._timeout: float | None = None
        self._tracing = _tracing(os.environ.get(ENDPOINT_VARIABLE))

    @property
    def address(self) -> str:
        """The gateway's address, without a slash at its end."""
        return str(self._http.base_url).rstrip("/")

    def __repr__(self) -> str:
        # Without the user and password that an address may have: notebooks are shared.
        address = str(self._http.base_url.copy_with(userinfo=b"")).rstrip("/")
        return f"{type(self).__name__}({address!r})"

    def with_options(self, *, timeout: float | None = None, max_retries: int | None = None) -> Self:
        """Return a client with other settings that shares this one's connections.

        client.with_options(max_retries=0, timeout=5).services.list()

        Args:
            timeout: seconds that a call may take. Slow calls, such as reports and waiting for a run, keep at
                least their own time.
            max_retries: how often a failed call is sent again. Waiting for a run stays patient.

        Raises:
            InvalidRequest: the timeout is not positive, or the retries are negative.
        """
        if timeout is not None and not timeout > 0:
            raise InvalidRequest(f"timeout must be more than 0 seconds, not {timeout!r}")
        if max_retries is not None and max_retries < 0:
            raise InvalidRequest(f"max_retries must be 0 or more, not {max_retries!r}")
        made = copy.copy(self)
        # Resources are made on first use and send by the client that made them.
        for name in [
            name for name in vars(made) if isinstance(getattr(type(made), name, None), cached_property)
        ]:
            del made.__dict__[name]
        made._timeout = self._timeout if timeout is None else timeout
        if max_retries is not None:
            made.retries = dataclasses.replace(self.retries, attempts=max_retries + 1)
        return made

    def serve_functions(self, classifiers: Sequence[AnyClassifier]) -> list[str]:
        """Serve the functions and models among ``classifiers`` until this client is closed.

        Returns the classifiers for the gateway: each ``py:module:function`` and each object becomes an
        address on this machine.

        Raises:
            InvalidRequest: the gateway is on another machine, or a function cannot be used.
        """
        return self._functions.serve_functions(classifiers, self._http.base_url)

    def name_functions(self, specs: Sequence[str]) -> NamedClassifiers:
        """Name the served functions among ``specs`` as reports do, and part them from their addresses."""
        return self._functions.name_functions(specs)

    def functions_named(self, names: Sequence[str]) -> dict[str, str]:
        """Return the addresses of those of ``names`` that are functions of this client."""
        return self._functions.functions_named(names)

    def _traced(self, call: Call[Any]) -> AbstractContextManager[None]:
        """Return a span of a call that changes something: one for each poll would say nothing."""
        if call.method == "GET":
            return nullcontext()
        # What follows the collection's name is an id.
        collection = "/".join(call.path.split("/")[:3])
        return self._tracing.span(f"{call.method} {collection}", kind="client")

    def _request(self, call: Call[Any]) -> httpx.Request:
        request = call.build(self._http, self._timeout)
        if (trace := self._tracing.current()) is not None:
            request.headers[TRACE_HEADER] = trace
        return request

    @abstractmethod
    def _connect(self, base_url: httpx.URL, timeout: float, headers: Mapping[str, str]) -> H: ...


@cache
def _tracing(endpoint: str | None) -> Tracing:
    # One for all clients of the program: each has a thread that sends.
    return tracing_to(endpoint, "counterpose")


def _headers(api_key: str | None) -> dict[str, str]:
    key = api_key if api_key is not None else os.environ.get(KEY_VARIABLE)
    agent = {"user-agent": USER_AGENT}
    return agent if key is None else agent | {"authorization": f"Bearer {key}"}


def _check_unset(**settings: object) -> None:
    """Reject settings that would have no effect: the caller's own httpx client already has its own."""
    for name, value in settings.items():
        if value is not None:
            # The value stays out of the message: it may be a key.
            raise InvalidRequest(f"{name!r} has no effect together with 'http': set it on your httpx client")


def _url(base_url: str | None) -> httpx.URL:
    # An empty variable counts as unset: that is how shell scripts clear a setting.
    url = base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    try:
        return httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidRequest(f"{url!r} is not a valid address: {error}") from error
