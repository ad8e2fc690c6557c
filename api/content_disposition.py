"""The names in a part's Content-Disposition, as every client in use writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

_PARAMETER = re.compile(rb';\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"]*)', re.DOTALL)
_EXTENDED = re.compile(rb"([^']*)'[^']*'(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Disposition:
    """`form-data; name=…; filename=…`; None for what is absent."""

    name: str | None
    file_name: str | None


def parse_disposition(header: bytes) -> Disposition:
    """Field and file name of a part. A `filename*` (RFC 5987) beats a plain `filename`."""
    parameters = {name.lower(): value for name, value in _PARAMETER.findall(header)}
    name = parameters.get(b"name")
    return Disposition(
        name=None if name is None else _decode(_unquote(name)), file_name=_file_name(parameters)
    )


def _file_name(parameters: dict[bytes, bytes]) -> str | None:
    if b"filename*" in parameters:
        extended = _EXTENDED.fullmatch(_unquote(parameters[b"filename*"].strip()))
        if extended is not None:
            return _decode(unquote_to_bytes(extended[2]), charset=extended[1].decode("ascii", "replace"))
    plain = parameters.get(b"filename")
    return None if plain is None else _decode_plain(_unquote(plain))


def _unquote(value: bytes) -> bytes:
    value = value.strip()
    if len(value) < 2 or not value.startswith(b'"'):
        return value
    # Only the quote and the backslash are ever escaped; any other backslash is part of a
    # Windows path and must stay one.
    return re.sub(rb'\\(["\\])', rb"\1", value[1:-1])


def _decode_plain(value: bytes) -> str:
    """A plain file name: raw bytes, or percent-encoded by clients that fear raw ones.

    Browsers encode only the quote and line breaks (WHATWG). aiohttp and others encode everything,
    which is taken back only where that yields a name beyond ASCII, so `50%25.pdf` stays itself.
    """
    if value.isascii() and b"%" in value:
        decoded = unquote_to_bytes(value)
        if not decoded.isascii() and _is_utf8(decoded):
            return decoded.decode()
    for encoded, plain in ((b"%22", b'"'), (b"%0D", b"\r"), (b"%0A", b"\n")):
        value = value.replace(encoded, plain)
    return _decode(value)


def _decode(value: bytes, *, charset: str = "utf-8") -> str:
    """UTF-8 as the standards say; else the encodings that old clients send in its place."""
    for encoding in (charset, "utf-8", "gb18030"):
        try:
            return value.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return value.decode("latin-1")


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
