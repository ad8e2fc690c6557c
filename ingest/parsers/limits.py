"""Bounds on what one document may unfold to, whatever its file's size."""

from __future__ import annotations

from pathlib import Path

from core.errors import EmptyDocument, TooLarge

MAX_TEXT_BYTES = 64 * 1024 * 1024
"""Of a text file, or of an archive's XML once inflated: some 20,000 pages."""

MAX_UNREADABLE_RUN = 200
"""Pages in a row that cannot be loaded before a PDF's claimed page count is disbelieved."""


def read_bounded(path: Path, name: str) -> bytes:
    """All bytes of a text file.

    Raises:
        TooLarge: there are more than `MAX_TEXT_BYTES`.
    """
    num_bytes = path.stat().st_size
    if num_bytes > MAX_TEXT_BYTES:
        raise TooLarge(
            f"{name!r} holds {num_bytes:,} bytes of text; one document may hold {MAX_TEXT_BYTES:,}.",
            remedy="Split it into several files.",
        )
    return path.read_bytes()


def no_text(name: str, why: str = "only white space") -> EmptyDocument:
    """The error for a document that was read and holds nothing."""
    return EmptyDocument(f"{name!r} holds no text: {why}.", remedy="Leave it out, or upload another version.")
