"""What the command line prints: JSON for scripts, tables and plain words for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


_PIPE_WIDTH = 120
_WHOLE = frozenset({"id", "job", "key", "status", "created", "expires", "revoked"})
"""Columns that one copies or compares: never broken, as are those aligned to the right."""


@cache
def out() -> Console:
    """Standard output; in a pipe or a file lines are not broken for a narrow terminal."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


@cache
def err() -> Console:
    """Standard error: progress and remarks, so that standard output can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_json(document: object) -> None:
    """One JSON document on standard output, in UTF-8 whatever the terminal."""
    text = json.dumps(document, ensure_ascii=False, indent=2, default=_plain)
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace") + b"\n")
    sys.stdout.flush()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()
) -> None:
    """A table on standard output; columns in `right` are aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        is_right = column in right
        table.add_column(
            column,
            justify="right" if is_right else "left",
            overflow="fold",
            no_wrap=is_right or column in _WHOLE,
        )
    for row in rows:
        # As Text, so that a file named `[red].pdf` is not taken for markup.
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    out().print(table)


def say(message: str, *, style: str = "") -> None:
    """A remark on standard error."""
    # The terminal breaks a long line; we do not, so that a command in it can be copied.
    err().print(message, style=style or None, markup=False, soft_wrap=True)


def format_moment(moment: datetime | str | None) -> str:
    """`2026-11-30 22:05Z`, always in UTC; empty for None."""
    if moment is None:
        return ""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}Z"


def format_bytes(number: int) -> str:
    """`1.2 MB`, by powers of 1000."""
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def format_seconds(seconds: float | None) -> str:
    """`38 ms`, `1.24 s`, `2 min 5 s`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def format_money(amount: str | Decimal | None, currency: str) -> str:
    """All digits that count: `0.00000123 USD`; `0 USD` for nothing; empty for None."""
    if amount is None:
        return ""
    value = Decimal(str(amount))
    if value == 0:
        return f"0 {currency}"
    return f"{value.normalize():f} {currency}"


def format_pages(first: int | None, last: int | None) -> str:
    """`p. 3` or `pp. 3-5`; empty where the format has no pages."""
    if first is None:
        return ""
    return f"p. {first}" if last in (None, first) else f"pp. {first}-{last}"


def pick(document: dict[str, Any], *names: str) -> list[Any]:
    """The values of these names, None for what is missing."""
    return [document.get(name) for name in names]
