"""Server-sent events out of a byte stream."""

from __future__ import annotations


class EventDecoder:
    """Collects bytes and gives back the data of each complete event, as text.

    Lines end at CR, LF or CRLF only. (Splitting like `str.splitlines`, as httpx does, would cut a
    JSON string at U+2028, U+0085 and others that may stand unescaped in it.) Comments and fields
    other than `data` are skipped; an event cut off by the end of the stream is never given out.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        """The events that `chunk` completes, in order."""
        buffer = self._tail + chunk
        if buffer.endswith(b"\r"):  # the LF of a CRLF may come with the next chunk
            buffer, held = buffer[:-1], b"\r"
        else:
            held = b""
        *lines, rest = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._tail = rest + held
        return [event for line in lines if (event := self._take_line(line)) is not None]

    def _take_line(self, line: bytes) -> str | None:
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        if not self._data:
            return None
        event = b"\n".join(self._data).decode("utf-8", errors="replace")
        self._data.clear()
        return event
