"""Uploads as they stream in: bytes go from the socket to the blob store and nowhere else.

Neither a whole file nor a whole request is ever held in memory or spooled to a temporary folder.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Final

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError

from api.content_disposition import Disposition, parse_disposition
from core.errors import InvalidInput, TooLarge, UnsupportedFormat
from core.settings import UploadSettings
from ingest.uploads import FileReceiver, ReceivedFile, ReceivedUpload, require_file_count
from storage.tags import clean_document_tags, split_tags

FIELD: Final = "files"
TAGS_FIELD: Final = "tags"
_MAX_TAGS_BYTES = 16 * 1024  # 32 tags of 64 Chinese characters are 6 kB
BUFFER_BYTES = 1024 * 1024
"""Read so much before going to a thread with it."""

MAX_OPEN_FILES = 32
"""Files that wait for the end of their request before they become visible in the blob store.

A request that breaks off leaves none of those. Of a larger batch the earlier ones are visible under
their hash already; nothing refers to them, and uploading the batch again finds them in place.
"""

_BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
_HOW = f"Send multipart/form-data with one part named `{FIELD}`, with a file name, per file."
_HOW_TAGS = f"Send tags as plain text in UTF-8, one a part named `{TAGS_FIELD}` or several with commas."


async def receive_files(
    request: Request, make_receiver: Callable[[str], FileReceiver], limits: UploadSettings
) -> ReceivedUpload:
    """The files of the request, in its order, stored or refused one by one, and its tags.

    Raises:
        UnsupportedFormat: the body is not multipart/form-data.
        TooLarge: the request is; found out before reading where its length is declared.
        InvalidInput: the body is malformed, or a part is neither a file named `files` nor tags.
        ClientDisconnect: the client broke off. Then, as after any error, nothing stays behind.
    """
    _refuse_declared_length(request, limits)
    parser = UploadParser(_boundary(request), make_receiver, limits)
    try:
        await _feed(request, parser, limits)
        files = await run_in_threadpool(parser.finish)
        return ReceivedUpload(tuple(files), parser.tags)
    except BaseException:
        # Cancellation too. A thread of ours has ended by now, since such a wait is not abandoned.
        parser.discard()
        raise


async def _feed(request: Request, parser: UploadParser, limits: UploadSettings) -> None:
    buffer = bytearray()
    num_bytes = 0
    async for chunk in request.stream():
        num_bytes += len(chunk)
        if num_bytes > limits.max_request_bytes:
            raise _too_large(limits)
        buffer += chunk
        if len(buffer) >= BUFFER_BYTES:
            await run_in_threadpool(parser.feed, bytes(buffer))
            buffer.clear()
    await run_in_threadpool(parser.feed, bytes(buffer))


class UploadParser:
    """Cuts a multipart body into files and tags. Not thread-safe: feed it from one thread at a time."""

    def __init__(
        self, boundary: bytes, make_receiver: Callable[[str], FileReceiver], limits: UploadSettings
    ) -> None:
        self._make_receiver = make_receiver
        self._limits = limits
        self._files: list[FileReceiver | ReceivedFile] = []
        self._waiting: deque[int] = deque()
        self._current: FileReceiver | None = None
        self._text: bytearray | None = None  # of a part with tags
        self._tags: tuple[str, ...] = ()
        self._num_tags_bytes = 0
        self._headers: dict[bytes, bytes] = {}
        self._header_name = b""
        self._header_value = b""
        self._complete = False
        self._num_bytes = 0
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
            # 300 Chinese characters, percent-encoded, once plain and once extended, are 5.4 kB.
            max_header_size=16 * 1024,
        )

    @property
    def tags(self) -> tuple[str, ...]:
        """What came in parts named `tags`, as it is stored; complete once `finish` returned."""
        return self._tags

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            position = self._num_bytes + max(getattr(error, "offset", 0), 0)
            raise InvalidInput(
                f"The multipart body is malformed near byte {position:,}.", remedy=_HOW, position=position
            ) from error
        self._num_bytes += len(data)

    def finish(self) -> list[ReceivedFile]:
        """All files, now visible in the blob store.

        Raises:
            InvalidInput: the body ended before its closing boundary.
        """
        if not self._complete:
            raise InvalidInput(
                f"The multipart body ends after {self._num_bytes:,} bytes without its closing boundary.",
                remedy="Send the whole body again.",
            )
        while self._waiting:
            self._finish_oldest()
        return [file for file in self._files if isinstance(file, ReceivedFile)]

    def discard(self) -> None:
        """Drop every file that is not visible yet."""
        for file in self._files:
            if isinstance(file, FileReceiver):
                file.discard()

    def _finish_oldest(self) -> None:
        position = self._waiting.popleft()
        receiver = self._files[position]
        assert isinstance(receiver, FileReceiver)
        self._files[position] = receiver.finish()

    def _on_part_begin(self) -> None:
        self._headers = {}

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value.strip()
        self._header_name = self._header_value = b""

    def _on_headers_finished(self) -> None:
        disposition = parse_disposition(self._headers.get(b"content-disposition", b""))
        if disposition.name == TAGS_FIELD and disposition.file_name is None:
            self._text = bytearray()
            return
        require_file_count(len(self._files) + 1, self._limits)
        self._current = self._make_receiver(_file_name(disposition, self._headers))
        self._files.append(self._current)

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._text is not None:
            self._num_tags_bytes += end - start
            if self._num_tags_bytes > _MAX_TAGS_BYTES:
                raise InvalidInput(f"The tags are longer than {_MAX_TAGS_BYTES:,} bytes.", remedy=_HOW_TAGS)
            self._text += data[start:end]
        if self._current is not None:
            self._current.write(data[start:end])

    def _on_part_end(self) -> None:
        if self._text is not None:
            # Checked at once: where tags come first, a bad one costs nobody the transfer of files.
            self._tags = clean_document_tags([*self._tags, *_tags_of(self._text)])
            self._text = None
            return
        self._waiting.append(len(self._files) - 1)
        self._current = None
        if len(self._waiting) > MAX_OPEN_FILES:
            self._finish_oldest()

    def _on_end(self) -> None:
        self._complete = True


def _tags_of(text: bytearray) -> list[str]:
    try:
        return split_tags(text.decode())
    except UnicodeDecodeError as error:
        raise InvalidInput("The tags are not in UTF-8.", remedy=_HOW_TAGS) from error


def _file_name(disposition: Disposition, headers: dict[bytes, bytes]) -> str:
    """The file name of a part, which must be a file under the one name we know."""
    if disposition.name is None:
        raise InvalidInput("A part of the upload has no name.", remedy=_HOW)
    if disposition.name == TAGS_FIELD:
        raise InvalidInput(f"A part named `{TAGS_FIELD}` is a file.", remedy=_HOW_TAGS)
    if disposition.name != FIELD:
        raise InvalidInput(
            f"The upload has a part named {disposition.name[:100]!r}, which is not known.", remedy=_HOW
        )
    if not disposition.file_name:
        raise InvalidInput(f"A part named `{FIELD}` has no file name.", remedy=_HOW)
    encoding = headers.get(b"content-transfer-encoding", b"binary").lower()
    if encoding not in (b"binary", b"8bit", b"7bit"):
        # RFC 7578 deprecates the header; storing the encoded text as if it were the file would be worse.
        raise InvalidInput(
            f"A part has Content-Transfer-Encoding {encoding.decode('latin-1')[:50]!r}.",
            remedy="Send the file's bytes as they are.",
        )
    return disposition.file_name


def _boundary(request: Request) -> bytes:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        raise UnsupportedFormat(
            f"The body is {content_type[:100] or 'of no declared type'}, not multipart/form-data.",
            remedy=_HOW,
        )
    found = _BOUNDARY.search(content_type)
    boundary = (found[1] or found[2]) if found else ""
    # RFC 2046 §5.1.1: 1 to 70 characters.
    if not 1 <= len(boundary) <= 70:
        raise InvalidInput("The Content-Type has no usable boundary.", remedy=_HOW)
    return boundary.encode("latin-1")


def _refuse_declared_length(request: Request, limits: UploadSettings) -> None:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limits.max_request_bytes:
        raise _too_large(limits)


def _too_large(limits: UploadSettings) -> TooLarge:
    return TooLarge(
        f"The request is larger than {limits.max_request_bytes:,} bytes.",
        remedy="Send the files in several requests, or have LONGLEAF_UPLOAD__MAX_REQUEST_BYTES raised.",
        max_bytes=limits.max_request_bytes,
    )
