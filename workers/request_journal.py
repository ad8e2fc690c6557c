"""The journal of a running job's requests, in SQL, where its successor finds it."""

from __future__ import annotations

import threading
from types import TracebackType

import structlog

from core.ids import new_id
from core.request_journal import JournalEntry
from core.usage import TokenUsage
from storage.database import Database
from storage.engine_requests import RequestNote, note_request
from storage.jobs import ClaimedJob

log = structlog.get_logger()

EVERY_SECONDS = 0.5
"""How old what is written of a running request may be: so much decoding is lost with its worker."""


class JobJournal:
    """Writes what a job's requests consume, while the block lasts.

    The first token of each request is written before `used` returns, since its whole prompt is computed then;
    what it consumes after that twice a second, by a thread; its end before `close` returns. So nothing of it
    is written later, when its work has put it on the ledger.
    """

    def __init__(self, database: Database, job: ClaimedJob) -> None:
        self._database = database
        self._job = job
        self._wake = threading.Condition()
        self._entries: set[_Entry] = set()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._writing = threading.Lock()

    def __enter__(self) -> JobJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()

    def open(self, model: str, model_revision: str) -> JournalEntry:
        entry = _Entry(self, model, model_revision)
        with self._wake:
            self._entries.add(entry)
            self._wake.notify_all()
            if self._thread is None:
                name = f"journal-{self._job.id}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
        return entry

    def begin(self, entry: _Entry) -> None:
        with self._writing:
            self._write(entry)

    def end(self, entry: _Entry) -> None:
        with self._wake:
            self._entries.discard(entry)
        with self._writing:
            entry.is_over = True
            self._write(entry)

    def _write(self, entry: _Entry) -> None:
        """Nothing where nothing is new. A failure is logged: what was written before stands."""
        usage = entry.usage
        if usage == entry.written:
            return
        note = RequestNote(
            entry.id, self._job.id, self._job.attempt, entry.model, entry.model_revision, usage
        )
        try:
            with self._database.write() as session:
                note_request(session, note)
        except Exception as error:  # a database that is away for a moment must not end the request
            log.warning("journal.write_failed", job_id=self._job.id, error=str(error))
            return
        entry.written = usage

    def _run(self) -> None:
        while True:
            with self._wake:
                if self._is_closed:
                    return
                self._wake.wait(EVERY_SECONDS if self._entries else None)
                entries = tuple(self._entries)
            for entry in entries:
                with self._writing:
                    if not entry.is_over:
                        self._write(entry)


class _Entry:
    def __init__(self, journal: JobJournal, model: str, model_revision: str) -> None:
        self.id = new_id("req")
        self.model = model
        self.model_revision = model_revision
        self.usage = TokenUsage()
        self.written = TokenUsage()
        self.is_over = False
        self._journal = journal

    def used(self, usage: TokenUsage) -> None:
        is_first = self.usage == TokenUsage()
        self.usage = usage
        if is_first:
            self._journal.begin(self)

    def close(self) -> None:
        self._journal.end(self)
