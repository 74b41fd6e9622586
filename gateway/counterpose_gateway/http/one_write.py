"""Head and body of a short answer in one write: uvicorn sends each by itself."""

from __future__ import annotations

import asyncio
from typing import Any

JOINED_BYTES = 65_536
"""A longer body is not copied to save a call."""

_BEGIN, _END = b"HTTP/1.1 ", b"\r\n\r\n"


class OneWrite(asyncio.Transport):
    """A connection's transport that holds an answer's head until its body comes, or until the next turn.

    A write is a system call, for which the event loop gives the interpreter away. Under load it gets it back
    after 0.5 ms, which is more than the whole answer takes.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: Any) -> None:
        """Write the data, after the head that waits, if any."""
        if not self._head and isinstance(data, bytes) and data.startswith(_BEGIN) and data.endswith(_END):
            self._head = data
            # A stream's first event may come much later.
            self._loop.call_soon(self.flush)
        elif self._head and len(data) <= JOINED_BYTES:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        else:
            self.flush()
            self._transport.write(data)

    def flush(self) -> None:
        """Write the head that waits, if any."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Close the connection after what was written."""
        self.flush()
        self._transport.close()

    def write_eof(self) -> None:
        """End the writing after what was written."""
        self.flush()
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Return whether the connection can be closed on one side."""
        return self._transport.can_write_eof()

    def abort(self) -> None:
        """Close the connection and forget what was not sent."""
        self._head = b""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or being closed."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Receive no more."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol receive."""
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives."""
        return self._transport.get_protocol()
