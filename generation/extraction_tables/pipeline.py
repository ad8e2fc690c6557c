"""Fills a table row by row; each row is a transaction of its own, so a worker that dies loses one at most."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import structlog

from accounting.billing import BurnReason, burn_reason, burned
from accounting.holds import require_left
from accounting.ledger import Ledger, LedgerLine
from accounting.stages import Stage
from core.clock import utc_now
from core.errors import JobCancelled, LeaseLost, LongleafError, ModelUnavailable
from core.ids import CollectionId, DocumentId, ExtractionId
from core.settings import AskSettings
from generation.accounts import consumption_lines
from generation.citations import CitationVerifier
from generation.consumption import Consumption
from generation.extraction_tables.cells import Cell, cell_json
from generation.extraction_tables.choosing import choose_by_model, choose_by_rule
from generation.extraction_tables.columns import Column, columns_of
from generation.extraction_tables.filling import RowFiller
from generation.extraction_tables.finding import ColumnFinder, Found, merged
from generation.extraction_tables.registration import ExtractionParameters
from inference.protocols import ChatTokenizer, Embedder, Generator
from retrieval.sentence_vectors import SentenceVectors
from storage.database import Database
from storage.extractions import ExtractionRepository
from storage.job_run import JobRun, RunOutcome
from storage.models import Extraction, ExtractionRow

log = structlog.get_logger()

SLICE_SECONDS = 5.0
"""A long table gives its worker up so often; others of its queue have work to do."""


class ExtractionPipeline:
    """Runs jobs of kind `extract`. One instance serves all threads of a worker."""

    def __init__(
        self,
        *,
        settings: AskSettings,
        database: Database,
        finder: ColumnFinder,
        embedder: Embedder,
        generator: Generator,
        tokenizer: ChatTokenizer,
        ledger: Ledger,
        default_method: Literal["rule", "fill"],
        is_brief: bool,
        slice_seconds: float = SLICE_SECONDS,
    ) -> None:
        self._settings = settings
        self._database = database
        self._finder = finder
        self._embedder = embedder
        self._generator = generator
        self._tokenizer = tokenizer
        self._ledger = ledger
        self._default_method = default_method
        self._filler = RowFiller(
            settings=settings, generator=generator, tokenizer=tokenizer, is_brief=is_brief
        )
        self._verifier = CitationVerifier(database)
        self._slice_seconds = slice_seconds

    def run(self, run: JobRun) -> RunOutcome:
        """Fill rows until all are filled, or until the slice ends."""
        deadline = time.monotonic() + self._slice_seconds
        with self._database.read() as session:
            extraction = ExtractionRepository(session, run.job.tenant_id).find_by_job(run.job.id)
        assert extraction is not None  # made in the job's own transaction, and never deleted
        while True:
            run.checkpoint()
            with self._database.read() as session:
                row = ExtractionRepository(session, run.job.tenant_id).find_open(ExtractionId(extraction.id))
                if row is not None:
                    require_left(session, run.job)
            if row is None:
                self._finish(run, extraction)
                return "done"
            self._fill_row(run, extraction, row)
            if time.monotonic() >= deadline:
                return "yielded"

    # ---- rows ----------------------------------------------------------------------------

    def _fill_row(self, run: JobRun, extraction: Extraction, row: ExtractionRow) -> None:
        """One document's row, with what it took; a document that cannot be read has a row that says so."""
        consumption = Consumption()
        try:
            cells, trail = self._cells(run, extraction, row, consumption)
            self._store(run, extraction, row, _outcome(cells), cells, trail, consumption)
        except (JobCancelled, LeaseLost, ModelUnavailable) as error:
            consumption.add(Stage.EXTRACT, error.uses)
            self._record_burned(run, extraction, row, consumption, burn_reason(error))
            raise
        except LongleafError as error:
            consumption.add(Stage.EXTRACT, error.uses)
            failed = [{"error": {"code": error.code, "detail": str(error)}}]
            self._store(run, extraction, row, "failed", {}, failed, consumption)
        except Exception:  # whatever the reason, the tokens were spent
            self._record_burned(run, extraction, row, consumption, BurnReason.FAILED)
            raise

    def _cells(
        self, run: JobRun, extraction: Extraction, row: ExtractionRow, consumption: Consumption
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        parameters = ExtractionParameters.of_json(extraction.parameters)
        method = self._default_method if parameters.method == "auto" else parameters.method
        columns = columns_of(parameters.schema)
        vectors = SentenceVectors(self._embedder)
        found: dict[str, Found] = {}
        for column in columns:
            found[column.name] = self._finder.find(
                run.job.tenant_id,
                CollectionId(extraction.collection_id),
                DocumentId(row.document_id),
                column,
                num_passages=parameters.num_passages,
                vectors=vectors,
                consumption=consumption,
                with_sentences=method != "fill",
            )
            run.checkpoint()
        if method == "fill":
            filled = self._filler.fill(
                columns,
                parameters.schema,
                merged(list(found.values())),
                instructions=parameters.instructions,
                max_repairs=self._repairs(parameters),
                cache_salt=run.job.tenant_id,
                consumption=consumption,
                checkpoint=run.checkpoint,
            )
            return self._verified(run, columns, filled.cells), filled.trail
        cells = {
            column.name: self._chosen(run, column, found[column.name], parameters, method, consumption)
            for column in columns
        }
        return self._verified(run, columns, cells), [{"how": method}]

    def _repairs(self, parameters: ExtractionParameters) -> int:
        given = parameters.max_repairs
        return self._settings.repair_attempts if given is None else given

    def _chosen(
        self,
        run: JobRun,
        column: Column,
        found: Found,
        parameters: ExtractionParameters,
        method: str,
        consumption: Consumption,
    ) -> Cell:
        if method == "rule":
            return choose_by_rule(column, found)
        run.checkpoint()
        return choose_by_model(
            column,
            found,
            generator=self._generator,
            tokenizer=self._tokenizer,
            instructions=parameters.instructions,
            cache_salt=run.job.tenant_id,
            consumption=consumption,
            checkpoint=run.checkpoint,
        )

    def _verified(
        self, run: JobRun, columns: tuple[Column, ...], cells: Mapping[str, Cell]
    ) -> dict[str, Any]:
        quotes = [cell.quote for cell in cells.values() if cell.quote is not None]
        citations = self._verifier.verify(run.job.tenant_id, quotes)
        empty = Cell(reason="not_stated")
        return {column.name: cell_json(cells.get(column.name, empty), citations) for column in columns}

    # ---- effects -------------------------------------------------------------------------

    def _store(
        self,
        run: JobRun,
        extraction: Extraction,
        row: ExtractionRow,
        outcome: str,
        cells: dict[str, Any],
        trail: list[dict[str, Any]],
        consumption: Consumption,
    ) -> None:
        """The row, its ledger lines and the job's progress, if the lease is held."""
        lines = self._lines(run, extraction, row, consumption)
        if outcome == "failed":
            lines = burned(lines, BurnReason.FAILED)
        with self._database.write() as session:
            run.confirm(session)
            entries = self._ledger.record(session, run.job.tenant_id, lines)
            cost = sum((entry.cost for entry in entries if entry.billed), Decimal(0))
            done = ExtractionRepository(session, run.job.tenant_id).finish_row(
                ExtractionId(extraction.id),
                DocumentId(row.document_id),
                outcome=outcome,
                cells=cells,
                trail=[*trail, {"cost": str(cost), "currency": entries[0].currency if entries else None}],
                at=utc_now(),
            )
            run.set_progress(
                session, {"documents_done": done.num_done, "documents_total": done.num_documents}
            )

    def _record_burned(
        self,
        run: JobRun,
        extraction: Extraction,
        row: ExtractionRow,
        consumption: Consumption,
        reason: BurnReason,
    ) -> None:
        lines = burned(self._lines(run, extraction, row, consumption), reason)
        with self._database.write() as session:
            self._ledger.record(session, run.job.tenant_id, lines)

    def _lines(
        self, run: JobRun, extraction: Extraction, row: ExtractionRow, consumption: Consumption
    ) -> list[LedgerLine]:
        """A document's lines are its own in each attempt: written twice, they are there once."""
        whose = {
            "source": f"{extraction.id}/{row.document_id}",
            "attempt": run.job.attempt,
            "key_id": run.job.key_id,
            "job_id": run.job.id,
            "collection_id": extraction.collection_id,
            "document_id": row.document_id,
        }
        return consumption_lines(consumption, self._generator, whose)

    def _finish(self, run: JobRun, extraction: Extraction) -> None:
        with self._database.write() as session:
            run.succeed(session)
            ExtractionRepository(session, run.job.tenant_id).complete(
                ExtractionId(extraction.id), at=utc_now()
            )
        log.info("extraction.finished", extraction_id=extraction.id, num_documents=extraction.num_documents)


def _outcome(cells: Mapping[str, Any]) -> str:
    num_filled = sum(cell["value"] is not None for cell in cells.values())
    return "filled" if num_filled == len(cells) else "partial" if num_filled else "empty"
