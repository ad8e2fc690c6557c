"""An extraction as the command line follows and shows it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.job_progress import follow_job
from cli.output import print_table
from client import Extraction, LongleafClient

_MAX_SHOWN = 40


def follow(client: LongleafClient, extraction: Extraction, console: Console) -> Extraction:
    """The extraction once it has ended, however it ended. Progress goes to `console`."""
    follow_job(client, extraction["job_id"], "documents", total=extraction["num_documents"], console=console)
    return client.get_extraction(extraction["id"])


def print_rows(extraction: Extraction, rows: Iterable[dict[str, Any]]) -> None:
    """A line a document: each value with its page."""
    columns = extraction["columns"]
    shown = [(row["document_name"], *(_cell(row["cells"].get(name)) for name in columns)) for row in rows]
    print_table(("document", *columns), shown)


def write_csv(path: Path, text: str) -> None:
    """Into a file, with a mark that has spreadsheets read it as UTF-8; `-` is standard output."""
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        path.write_text(text, encoding="utf-8-sig", newline="")


def _cell(cell: dict[str, Any] | None) -> str:
    if not cell:
        return ""
    if cell["value"] is None:
        return f"– ({cell['reason']})"
    value = cell["value"]
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:_MAX_SHOWN]} (p. {cell['citation']['first_page']})"
