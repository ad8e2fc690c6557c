"""Takes out of text what is garbage in any document, and nothing else."""

from __future__ import annotations

import re

# Colours and cursor moves of terminal recordings.
_ANSI_ESCAPE = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]")
_NEWLINES = re.compile("\r\n|[\r\x0b\x85]")
# Control characters (PostgreSQL refuses NUL), byte order marks and noncharacters.
_GARBAGE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufdd0-\ufdef\ufffe\uffff]")
# A surrogate on its own cannot be encoded as UTF-8.
_SURROGATE = re.compile("[\ud800-\udfff]")
_SUSPICIOUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]")


def is_suspicious(text: str) -> bool:
    """Whether `clean_text` may change `text`; cheap."""
    return _SUSPICIOUS.search(text) is not None


def clean_text(text: str) -> str:
    """`text` with newlines as `\\n` and without control characters; form feeds stay.

    Lone surrogates become U+FFFD. Everything else is verbatim: no normalization.
    """
    text = _NEWLINES.sub("\n", text)
    text = _ANSI_ESCAPE.sub("", text)
    return _SURROGATE.sub("\ufffd", _GARBAGE.sub("", text))


def clean_title(text: str) -> str:
    """`text` on one line, at most 300 characters."""
    return " ".join(clean_text(text).split())[:300]


def end_with_newline(text: str) -> str:
    """`text` with exactly what it has, and a newline if its last line lacks one."""
    return text if text.endswith("\n") else text + "\n"
