"""A client of a server with the OpenAI API: answers that are checked, tries that are bounded in time."""

from __future__ import annotations

import contextvars
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from counterpose_core.contract.spending import Spent
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    Cancelled,
    CounterposeError,
    DeadlineExceeded,
    InvalidRequest,
    PolicyRefused,
    UnknownModel,
)
from counterpose_processes.supervised import Supervised
from counterpose_services.openai_api.answers import Chat, Completion, Drawings, ErrorText, Refusal
from counterpose_services.openai_api.metering import NOTHING, most_of, note, taken
from counterpose_services.outbound.calls import Answer, AnswerLimits, BoundedCalls, Form

SETTINGS = "COUNTERPOSE_SERVICES_OPENAI"
POLICIES = frozenset(
    {"moderation_blocked", "content_policy_violation", "content_safety_violation", "content_filter"}
)
"""Codes by which servers say that a moderation or content policy refuses a request."""
ATTEMPTS = 5
LONGEST_MESSAGE = 300
TOO_BUSY = 429
# Without `Retry-After`: 30 s in total, since hosted servers have limits per minute.
FIRST_PAUSE_S = 2.0
OWN_PAUSE_S = 0.2
"""After a failure of a server of our own, which is waited for until it answers again."""

_NEVER = threading.Event()
_FAILED: ContextVar[threading.Event] = ContextVar("failed", default=_NEVER)
"""Set once another request of the same call has failed for good: nobody reads the answer any more."""

Body = TypeVar("Body", bound=BaseModel)
Asked = TypeVar("Asked")
Given = TypeVar("Given")


@dataclass(frozen=True)
class Patience:
    """How a client waits between tries; tests replace the clock. Without ``sleep``, until the call fails."""

    sleep: Callable[[float], object] | None = None
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.Random().random


@dataclass(frozen=True)
class _Again:
    """A failure that another try may mend, and the pause that the server asks for."""

    error: CounterposeError
    pause: float | None = None


class OpenAIServer:
    """One server, which may be ``supervised`` by this process; errors call it ``name``.

    A request that is refused as one too many (429), or because the server is down or fails (5xx), is tried
    again within the time of the whole call, after the pause that the server asks for.
    """

    def __init__(
        self,
        url: str,
        client: httpx.Client,
        *,
        limits: AnswerLimits,
        in_flight: int,
        prefix: str = SETTINGS,
        key: str | None = None,
        name: str | None = None,
        supervised: Supervised | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.url, self.name = url.rstrip("/"), name or url
        self._limits, self._patience, self.supervised = limits, patience or Patience(), supervised
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client, self._prefix = client, prefix
        self._calls = BoundedCalls(client, limits, name=self.name, prefix=prefix)
        self._places = threading.BoundedSemaphore(in_flight)
        self._pool = ThreadPoolExecutor(max_workers=in_flight, thread_name_prefix="openai")

    def completion(self, body: Mapping[str, Any]) -> Completion:
        """Return the answer of ``POST /completions``.

        Raises:
            InvalidRequest: the server refuses the request, as one whose prompt is too long.
            UnknownModel: it serves no such model.
            BackendUnavailable: it cannot be reached, or refuses or fails every try.
            DeadlineExceeded: it does not answer in time.
            BadBackendOutput: the answer is none.
        """
        return self._read("completions", body, Completion)

    def chat(self, body: Mapping[str, Any]) -> Chat:
        """Return the answer of ``POST /chat/completions``; raises as ``completion`` does."""
        return self._read("chat/completions", body, Chat)

    def drawings(self, verb: str, asked: Mapping[str, Any] | Form) -> Drawings:
        """Return the answer of ``POST /images/{verb}`` to a body or a form; raises as ``completion`` does.

        Raises:
            PolicyRefused: the server's moderation or content policy refuses the request.
        """
        return self._read(f"images/{verb}", asked, Drawings)

    def together(
        self, ask: Callable[[Asked], Given], asked: Iterable[Asked]
    ) -> list[Given | CounterposeError]:
        """Ask all at once, at most ``in_flight`` of all callers; return each one's answer or its error.

        Raises:
            BackendUnavailable: the server was unavailable to one of them: the whole call is to be repeated.
            DeadlineExceeded: one of them got no answer in time.
        """
        waiting = list(asked)
        if len(waiting) == 1:
            # Another thread would only be waited for.
            return [_settled(partial(ask, waiting[0]))]
        failed = threading.Event()

        def ask_one(one: Asked) -> Given:
            _FAILED.set(failed)
            return ask(one)

        # Each thread works on the caller's request, and adds to its meter.
        futures = [self._pool.submit(contextvars.copy_context().run, ask_one, one) for one in waiting]
        try:
            return [_settled(future.result) for future in futures]
        finally:
            # Those that have not begun would only keep a server busy whose answers nobody reads. The others
            # are waited for: what they take belongs to this call.
            failed.set()
            wait([future for future in futures if not future.cancel()])

    def close(self) -> None:
        """Stop the threads that ask, close the connections, and stop a server of our own."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()
        if self.supervised is not None:
            self.supervised.close()

    def _read(self, path: str, asked: Mapping[str, Any] | Form, kind: type[Body]) -> Body:
        most = NOTHING
        if self.supervised is None:
            most = most_of(path, asked.fields if isinstance(asked, Form) else asked)
        answer = self._answered(f"{self.url}/{path}", asked, most)
        try:
            body = kind.model_validate_json(answer.content)
        except ValidationError as error:
            shown, kind_name = _shown(answer.content), kind.__name__.lower()
            raise BadBackendOutput(
                f"{self.name!r} did not return the JSON of {kind_name}, but {shown!r}; check that the server "
                "has this API below its address"
            ) from error
        if self.supervised is None:
            note(taken(body, most), instead_of=most)
        return body

    def _answered(self, url: str, asked: Mapping[str, Any] | Form, most: Spent) -> Answer:
        ends = self._patience.clock() + self._limits.seconds
        for attempt in itertools.count(1):
            answer = self._try(url, asked, ends, most)
            if isinstance(answer, Answer):
                return answer
            pause = answer.pause
            if pause is None:
                first = FIRST_PAUSE_S if self.supervised is None else OWN_PAUSE_S
                pause = first * 2 ** (attempt - 1) * (0.5 + self._patience.jitter() / 2)
            if attempt == ATTEMPTS or self._patience.clock() + pause >= ends:
                raise answer.error
            (self._patience.sleep or _FAILED.get().wait)(pause)
        raise AssertionError  # pragma: no cover  # the loop has no end

    def _try(self, url: str, asked: Mapping[str, Any] | Form, ends: float, most: Spent) -> Answer | _Again:
        if self.supervised is not None:
            self.supervised.wait(ends - self._patience.clock())
        left = max(ends - self._patience.clock(), 0.0)
        form, body = (asked, asked.fields) if isinstance(asked, Form) else (None, asked)
        try:
            with self._places:
                if _FAILED.get().is_set():
                    raise Cancelled("another request of the same call has failed; see its error")
                note(most)
                answer = self._calls.send("POST", url, body, form=form, headers=self._headers, seconds=left)
        except (BackendUnavailable, DeadlineExceeded) as error:
            if isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                # Of one that broke off, or was late, nobody knows whether it is paid for.
                note(NOTHING, instead_of=most)
            if isinstance(error, DeadlineExceeded):
                raise
            return _Again(error)
        if answer.status == httpx.codes.OK:
            return answer
        note(NOTHING, instead_of=most)
        refusal = self._refusal(answer, str(body.get("model")))
        if answer.status == TOO_BUSY or answer.status >= 500:
            return _Again(refusal, _pause_asked_for(answer))
        raise refusal

    def _refusal(self, answer: Answer, model: str) -> CounterposeError:
        error = _error(answer.content)
        said, status = error.message[:LONGEST_MESSAGE], answer.status
        told = f"{self.name!r} returned status {status}: {said!r}"
        if status in (httpx.codes.BAD_REQUEST, httpx.codes.FORBIDDEN) and str(error.code) in POLICIES:
            return PolicyRefused(
                f"{self.name!r} refuses the request by its content policy ({error.code}: {said!r}); change "
                "the words or the image, or choose another server"
            )
        if status == httpx.codes.NOT_FOUND:
            return UnknownModel(f"{self.name!r} does not serve {model!r} ({said!r}); check model and server")
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return BackendUnavailable(f"{told}; check {self._prefix}_KEY_FILE")
        if status == TOO_BUSY:
            pause = _pause_asked_for(answer)
            wait = "" if pause is None else f" and asks to wait {pause:g} s"
            return BackendUnavailable(f"{told}{wait}; go on later, or lower {self._prefix}_IN_FLIGHT")
        if status >= 500:
            return BackendUnavailable(f"{told}; its own log says why")
        if 300 <= status < 400:
            where = f"the answer of {self.name!r} leads elsewhere (status {status})"
            return BadBackendOutput(f"{where}, and redirects are not followed; name the address itself")
        if 400 <= status < 500:
            return InvalidRequest(f"{told}; shorten the text, or check the suite's settings")
        return BadBackendOutput(told)


def _settled(answer: Callable[[], Given]) -> Given | CounterposeError:
    """Return the answer, or the error that is this request's own."""
    try:
        return answer()
    except (BadBackendOutput, InvalidRequest, UnknownModel) as error:
        return error


def _error(content: bytes) -> ErrorText:
    try:
        return Refusal.model_validate_json(content).error
    except ValidationError:
        return ErrorText(message=_shown(content))


def _shown(content: bytes) -> str:
    return content[:LONGEST_MESSAGE].decode(errors="replace")


def _pause_asked_for(answer: Answer) -> float | None:
    """Return the seconds of ``Retry-After``, a number or a date (RFC 9110), or None."""
    given = answer.headers.get("retry-after", "")
    try:
        return max(float(given), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(given).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
