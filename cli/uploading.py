"""An upload as the command line does it: send, follow, and say what became of each file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from cli.output import format_bytes
from client import Collection, File, Job, LongleafClient, UploadedBatch

_DONE = frozenset({"ready", "duplicate", "failed"})
_NAME_WIDTH = 32
_MAX_BARS = 12


@dataclass(frozen=True, slots=True)
class UploadOutcome:
    """`files[i]` is what became of `paths[i]` as far as was waited for."""

    collection: Collection
    jobs: list[Job]
    paths: list[Path]
    files: list[File]

    @property
    def num_failed(self) -> int:
        return sum(file["status"] == "failed" for file in self.files)


def upload_files(
    client: LongleafClient,
    collection: Collection,
    paths: Sequence[Path],
    *,
    wait: bool,
    console: Console,
    tags: Sequence[str] = (),
) -> UploadOutcome:
    """Send `paths`, with `tags` for each, and, if `wait`, stay until every file is done.

    Progress goes to `console`.
    """
    batches = _send(client, collection, paths, tags, console)
    if wait:
        jobs = _follow(client, batches, console)
        files = [file for job in jobs for file in job["files"]]
    else:
        jobs = [batch.job for batch in batches]
        files = [file for batch in batches for file in batch.files]
    return UploadOutcome(collection, jobs, [path for batch in batches for path in batch.paths], files)


def _send(
    client: LongleafClient,
    collection: Collection,
    paths: Sequence[Path],
    tags: Sequence[str],
    console: Console,
) -> list[UploadedBatch]:
    total = sum(path.stat().st_size for path in paths)
    progress = Progress(
        TextColumn("sending"),
        BarColumn(),
        TextColumn("{task.fields[sent]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task("", total=total, sent="")

        def count(path: Path, num_bytes: int) -> None:
            progress.advance(task, num_bytes)
            done = int(progress.tasks[0].completed)
            progress.update(task, sent=f"{format_bytes(done)} of {format_bytes(total)}")

        return client.upload(collection["id"], paths, tags=tags, on_bytes=count)


def _follow(client: LongleafClient, batches: Sequence[UploadedBatch], console: Console) -> list[Job]:
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,  # a log wants no moving bars
    )
    with progress:
        bars = _FileBars(progress, num_files=sum(len(batch.files) for batch in batches))
        return [client.wait_for_job(batch.job["id"], on_progress=bars.show) for batch in batches]


class _FileBars:
    """A bar for all files, and one for each that is being worked on."""

    def __init__(self, progress: Progress, *, num_files: int) -> None:
        self._progress = progress
        self._all = progress.add_task("all files".ljust(_NAME_WIDTH), total=num_files, detail="")
        self._num_files = num_files
        self._done: set[str] = set()
        self._bars: dict[str, TaskID] = {}

    def show(self, job: Job) -> None:
        for file in job.get("files", []):
            self._show_file(file)
        detail = f"{len(self._done)} of {self._num_files} files"
        self._progress.update(self._all, completed=len(self._done), detail=detail)

    def _show_file(self, file: File) -> None:
        if file["status"] in _DONE:
            self._done.add(file["id"])
            bar = self._bars.pop(file["id"], None)
            if bar is not None:
                self._progress.remove_task(bar)
            return
        if file["status"] == "queued":
            return
        if file["id"] not in self._bars:
            if len(self._bars) >= _MAX_BARS:
                return
            self._bars[file["id"]] = self._progress.add_task(_short(file["name"]), total=None, detail="")
        done, total, detail = describe_progress(file)
        self._progress.update(self._bars[file["id"]], completed=done, total=total or None, detail=detail)


def describe_progress(file: File) -> tuple[int, int, str]:
    """How much is done, of how much, and both in words, for the step the file is at."""
    progress = file.get("progress") or {}
    if file["status"] == "embedding":
        done, total = progress.get("chunks_done") or 0, progress.get("chunks_total") or 0
        return done, total, f"embedding: {done} of {total} chunks" if total else "embedding"
    done, total = progress.get("pages_done") or 0, progress.get("pages_total") or 0
    return done, total, f"reading: {done} of {total} pages" if total else "reading"


def _short(name: str) -> str:
    """A name in a fixed number of cells; Chinese characters take two each."""
    text = Text(name)
    text.truncate(_NAME_WIDTH, overflow="ellipsis", pad=True)
    return text.plain


def outcome_rows(outcome: UploadOutcome) -> list[tuple[str, str, str]]:
    """Per file: name, status, reason of a failure."""
    return [
        (file["name"], file["status"], file["error"]["detail"] if file["error"] else "")
        for file in outcome.files
    ]
