"""A table as CSV: each column's value, and beside it where the document states it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from core.csv_cells import harmless
from storage.models import ExtractionRow


def table_as_csv(column_names: Sequence[str], rows: Iterable[ExtractionRow]) -> str:
    """A header and one line a document, as RFC 4180 has it.

    For each column `x` there are `x`, `x (quote)`, `x (page)`, `x (start)`, `x (end)` and `x (why not)`.
    Text that a spreadsheet would run as a formula is preceded by an apostrophe; numbers are not.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    head = [f"{name}{part}" for name in column_names for part in _PARTS]
    writer.writerow([*map(harmless, ("document_id", "document", "outcome")), *map(harmless, head)])
    for row in rows:
        cells = [part for name in column_names for part in _cell(row.cells.get(name) or {})]
        writer.writerow([row.document_id, harmless(row.document_name), row.outcome or "", *cells])
    return buffer.getvalue()


_PARTS = ("", " (quote)", " (page)", " (start)", " (end)", " (why not)")


def _cell(cell: dict[str, Any]) -> list[Any]:
    citation = cell.get("citation") or {}
    value = cell.get("value")
    if isinstance(value, list | bool):
        value = json.dumps(value, ensure_ascii=False)
    start, end = cell.get("start"), cell.get("end")
    return [
        harmless(value) if isinstance(value, str) else "" if value is None else value,
        harmless(citation.get("quote") or ""),
        citation.get("first_page") or "",
        citation.get("start", "") if start is None else start,
        citation.get("end", "") if end is None else end,
        cell.get("detail") or "",
    ]
