"""Runs summaries: document by document, then all together; what is made is kept node by node."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

import structlog
from sqlalchemy.orm import Session

from accounting.ledger import Ledger
from accounting.money import format_amount
from core.clock import utc_now
from core.errors import LongleafError, NotFound
from core.ids import DocumentId, SummaryId
from generation.answer_draft import Statement, compose, statements_json
from generation.citations import CitationVerifier, Quote
from generation.summaries.documents import (
    DocumentText,
    NodeTree,
    language_of,
    sentence_hashes,
    unpack_hashes,
)
from generation.summaries.making import LimitReached, NodeMaker, SliceOver
from generation.summaries.nodes import Node, document_json, document_statements, unpack_vectors
from generation.summaries.parameters import SummaryParameters
from generation.summaries.sections import cover, cut_sections
from generation.summaries.writing import NodeWriter
from inference.protocols import Generator
from storage.chunks import ChunkRepository
from storage.database import Database
from storage.documents import DocumentRepository
from storage.job_run import JobRun, RunOutcome
from storage.jobs import ClaimedJob
from storage.models import Page, Summary, SummaryDocument
from storage.summaries import SummaryRepository
from storage.webhooks import notify

log = structlog.get_logger()

SLICE_SECONDS = 5.0
"""A long summary gives its worker up so often; others of its queue have work to do."""

WriterName = Literal["extractive", "abstractive"]


@dataclass(frozen=True, slots=True)
class _Slice:
    """One slice of one run."""

    run: JobRun
    summary: Summary
    parameters: SummaryParameters
    writer_name: WriterName
    writer: NodeWriter
    tree: NodeTree
    previous: Summary | None

    @property
    def id(self) -> SummaryId:
        return SummaryId(self.summary.id)


class SummaryPipeline:
    """Runs jobs of kind `summarize`. One instance serves all threads of a worker."""

    def __init__(
        self,
        *,
        database: Database,
        writers: Mapping[WriterName, NodeWriter],
        default_writer: WriterName,
        generator: Generator,
        ledger: Ledger,
        slice_seconds: float = SLICE_SECONDS,
    ) -> None:
        self._database = database
        self._writers = writers
        self._default_writer = default_writer
        self._generator = generator
        self._ledger = ledger
        self._verifier = CitationVerifier(database)
        self._slice_seconds = slice_seconds

    def run(self, run: JobRun) -> RunOutcome:
        """Make nodes until there is one of all, or until the slice ends."""
        part = self._begin(run)
        is_capped = False
        try:
            while (row := self._find_open(part)) is not None:
                run.checkpoint()
                if is_capped:
                    self._leave_unread(part, row)
                    continue
                is_capped = self._read_document(part, row)
            self._finish(part, is_capped=is_capped)
        except SliceOver:
            return "yielded"
        return "done"

    def abandon(self, session: Session, job: ClaimedJob, error: LongleafError) -> None:
        """Nothing to close: nodes and documents that are done stay, and the summary's status is its job's."""

    def _begin(self, run: JobRun) -> _Slice:
        with self._database.read() as session:
            summaries = SummaryRepository(session, run.job.tenant_id)
            summary = summaries.find_by_job(run.job.id)
            assert summary is not None  # made in the job's own transaction, and never deleted
            parameters = SummaryParameters.of_json(summary.parameters)
            tells_changes = parameters.style == "changes_since_last"
            previous = summaries.find_previous(summary) if tells_changes else None
        name = self._default_writer if parameters.writer == "auto" else parameters.writer
        maker = NodeMaker(
            database=self._database,
            ledger=self._ledger,
            generator=self._generator,
            run=run,
            summary=summary,
            parameters=parameters,
            deadline=time.monotonic() + self._slice_seconds,
        )
        writer = self._writers[name]
        tree = NodeTree(run=run, parameters=parameters, writer=writer, maker=maker)
        return _Slice(run, summary, parameters, name, writer, tree, previous)

    # ---- documents -----------------------------------------------------------------------

    def _find_open(self, part: _Slice) -> SummaryDocument | None:
        with self._database.read() as session:
            return SummaryRepository(session, part.run.job.tenant_id).find_open(part.id)

    def _read_document(self, part: _Slice, row: SummaryDocument) -> bool:
        """Whether the run's limit was reached in it."""
        read = self._load(part, row)
        if read is None:
            gone = [{"pages": row.num_pages, "reason": "deleted"}]
            self._store(part, row, nodes=(), values={"skipped": gone}, num_nodes=0)
            return False
        document, pages = read
        nodes = part.tree.of_document(document, self._progress(part, row))
        coverage = cover(
            pages, document.text, nodes.read, unread="limit" if nodes.is_capped else "not_indexed"
        )
        values: dict[str, Any] = {
            "num_pages": coverage.num_pages,
            "num_pages_read": coverage.num_pages_read,
            "num_pages_empty": coverage.num_pages_empty,
            "skipped": list(coverage.skipped),
        }
        if part.parameters.style == "changes_since_last":
            values["sentences"] = b"".join(sentence_hashes(document.text))
        self._store(part, row, nodes=nodes.nodes, values=values, num_nodes=nodes.num_nodes)
        return nodes.is_capped

    def _load(self, part: _Slice, row: SummaryDocument) -> tuple[DocumentText, Sequence[Page]] | None:
        """The document's text by sections; None where it was deleted."""
        document_id = DocumentId(row.document_id)
        known = self._known(part)
        with self._database.read() as session:
            documents = DocumentRepository(session, part.run.job.tenant_id)
            try:
                documents.get(document_id)
            except NotFound:
                return None
            pages = documents.list_pages(document_id)
            chunks = ChunkRepository(session, part.run.job.tenant_id).list_places(document_id)
        text = "".join(page.text for page in pages)
        sections = cut_sections(chunks, text, max_tokens=part.writer.section_tokens)
        return DocumentText(_quote_of(row), text, sections, known), pages

    def _known(self, part: _Slice) -> set[bytes] | None:
        """Sentences that the version before has read, where only others count."""
        if part.previous is None:
            return None
        with self._database.read() as session:
            rows = SummaryRepository(session, part.run.job.tenant_id).all_parts(SummaryId(part.previous.id))
            return set().union(*(unpack_hashes(row.sentences) for row in rows))

    def _leave_unread(self, part: _Slice, row: SummaryDocument) -> None:
        unread = [{"pages": row.num_pages, "reason": "limit"}]
        self._store(part, row, nodes=(), values={"skipped": unread}, num_nodes=0)

    def _store(
        self,
        part: _Slice,
        row: SummaryDocument,
        *,
        nodes: Sequence[Node],
        values: Mapping[str, Any],
        num_nodes: int,
    ) -> None:
        statements = [statement for node in nodes for statement in node.statements]
        with self._database.write() as session:
            part.run.confirm(session)
            summaries = SummaryRepository(session, part.run.job.tenant_id)
            summaries.finish_document(
                part.id,
                DocumentId(row.document_id),
                node_key=nodes[0].key if len(nodes) == 1 else None,
                statements=document_json(statements),
                **values,
            )
            summaries.count_nodes(part.id, num_nodes)
            done = self._progress(part, row) | {"documents_done": row.position + 1}
            part.run.set_progress(session, done | {"pages_done": done["pages_done"] + row.num_pages})

    def _progress(self, part: _Slice, row: SummaryDocument) -> dict[str, Any]:
        """Before the document: documents and pages done, of how many."""
        with self._database.read() as session:
            summaries = SummaryRepository(session, part.run.job.tenant_id)
            before, total = summaries.count_pages(part.id, before=row.position)
        return {
            "documents_done": row.position,
            "documents_total": part.summary.num_documents,
            "pages_done": before,
            "pages_total": total,
        }

    # ---- the end -------------------------------------------------------------------------

    def _finish(self, part: _Slice, *, is_capped: bool) -> None:
        """One text of all documents, verified; where a limit was reached, what there is of each."""
        tenant_id = part.run.job.tenant_id
        with self._database.read() as session:
            rows = list(SummaryRepository(session, tenant_id).all_parts(part.id))
        told = [row for row in rows if row.statements]
        is_capped = is_capped or any(_was_capped(row) for row in rows)
        statements: Sequence[Statement]
        num_nodes = 0
        if is_capped or len(told) <= 1:
            statements = [s for row in told for s in document_statements(row.statements, _quote_of(row))]
        else:
            try:
                joined, num_nodes = self._join(part, told)
                statements = joined.statements
            except LimitReached:
                is_capped = True
                statements = [s for row in told for s in document_statements(row.statements, _quote_of(row))]
        result = self._result(part, statements, rows, is_capped=is_capped)
        with self._database.write() as session:
            part.run.succeed(session)
            summaries = SummaryRepository(session, tenant_id)
            summaries.count_nodes(part.id, num_nodes)
            summaries.complete(
                part.id, outcome="capped" if is_capped else "complete", result=result, at=utc_now()
            )
            notify(session, tenant_id, "summary.finished", _event(summaries.get(part.id)))
        log.info("summary.finished", summary_id=part.id, num_documents=len(rows), is_capped=is_capped)

    def _join(self, part: _Slice, rows: Sequence[SummaryDocument]) -> tuple[Node, int]:
        with self._database.read() as session:
            kept = SummaryRepository(session, part.run.job.tenant_id).find_nodes(
                [row.node_key for row in rows if row.node_key]
            )
        nodes = []
        for row in rows:
            assert row.node_key is not None  # only a limit leaves a document with several
            statements = document_statements(row.statements, _quote_of(row))
            vectors = unpack_vectors(kept[row.node_key].vectors, len(statements))
            nodes.append(Node(row.node_key, statements, vectors))
        text = " ".join(statement.text for node in nodes for statement in node.statements)
        pages = sum(row.num_pages for row in rows)
        return part.tree.joined(
            nodes,
            language=language_of(text, part.parameters),
            title=", ".join(row.document_name for row in rows[:3]),
            document_id=None,
            progress={
                "documents_done": part.summary.num_documents,
                "documents_total": part.summary.num_documents,
                "pages_done": pages,
                "pages_total": pages,
            },
        )

    def _result(
        self,
        part: _Slice,
        statements: Sequence[Statement],
        rows: Sequence[SummaryDocument],
        *,
        is_capped: bool,
    ) -> dict[str, Any]:
        """For `Summary.result`: the text with marks, its statements and verified citations."""
        quotes = [quote for statement in statements for quote in statement.quotes]
        citations = self._verifier.verify(part.run.job.tenant_id, quotes)
        spaced = list(_spaced(statements, by_line=part.parameters.style == "key_points"))
        composed = compose(spaced, citations, unsupported=part.parameters.unsupported)
        return {
            "text": composed.text,
            "statements": statements_json(composed.statements),
            "citations": [citation.as_json() for citation in citations],
            "warnings": [*composed.warnings, *self._warnings(part, composed.text, is_capped=is_capped)],
            "writer": part.writer_name,
            **({"since": self._changes(part, rows)} if part.parameters.style == "changes_since_last" else {}),
        }

    def _warnings(self, part: _Slice, text: str, *, is_capped: bool) -> Iterator[str]:
        if is_capped:
            yield "The run's limit or a budget was reached: what was read till then is told document by document."
        asked = part.parameters.language
        spoken = language_of(text, replace(part.parameters, language="auto"))
        if text and part.writer_name == "extractive" and asked not in ("auto", spoken):
            yield f"The documents' own sentences are not in `{asked}`; writer `abstractive` translates."

    def _changes(self, part: _Slice, rows: Sequence[SummaryDocument]) -> dict[str, Any]:
        """What became of the documents since the version before."""
        if part.previous is None:
            return {"summary_id": None, "version": None}
        with self._database.read() as session:
            before = list(
                SummaryRepository(session, part.run.job.tenant_id).all_parts(SummaryId(part.previous.id))
            )
        was = {row.document_id: row for row in before}
        now = {row.document_id: row for row in rows}
        old_names = {row.document_name for row in before if row.document_id not in now}
        new_names = {row.document_name for row in rows if row.document_id not in was}
        return {
            "summary_id": part.previous.id,
            "version": part.previous.version,
            "documents_added": sorted(new_names - old_names),
            "documents_removed": sorted(old_names - new_names),
            "documents_changed": sorted(old_names & new_names),
        }


def _event(summary: Summary) -> dict[str, Any]:
    path = f"/v1/summaries/{summary.id}"
    return {
        "summary_id": summary.id,
        "job_id": summary.job_id,
        "collection_id": summary.collection_id,
        "version": summary.version,
        "outcome": summary.outcome,
        "num_documents": summary.num_documents,
        "num_tokens": summary.num_tokens,
        "cost": format_amount(summary.cost),
        "currency": summary.currency,
        "links": {"summary": path, "html": f"{path}?format=html", "job": f"/v1/jobs/{summary.job_id}"},
    }


def _was_capped(row: SummaryDocument) -> bool:
    """Something of it was left unread, or all was read and could not be brought together any more."""
    return any(item["reason"] == "limit" for item in row.skipped) or bool(
        row.statements and row.node_key is None
    )


def _quote_of(row: SummaryDocument) -> Quote:
    return Quote(DocumentId(row.document_id), row.document_name, 0, 0, "")


def _spaced(statements: Sequence[Statement], *, by_line: bool) -> Iterator[Statement]:
    """Each on a line of its own, or a paragraph for each document; Chinese goes on without a blank."""
    for statement, following in zip_longest(statements, statements[1:]):
        if by_line:
            yield replace(statement, separator="\n")
            continue
        documents = [each.quotes[0].document_id for each in (statement, following) if each and each.quotes]
        is_break = len(documents) == 2 and documents[0] != documents[1]
        tight = statement.text[-1:] in "。！？；”」』"
        yield replace(statement, separator="\n\n" if is_break else "" if tight else " ")
