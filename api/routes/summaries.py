from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from api.authentication import Asker
from api.budget_headers import warning_headers
from api.collection_filter import OfCollection, find_wanted
from api.dependencies import FirstPosition, IdempotencyKey, Limit, NewestFirst, Services
from api.idempotency import make_once, request_hash
from api.routes.documented import problems
from api.schemas.base import ListOf
from api.schemas.quotes import Quote
from api.schemas.summaries import Format, NewSummary, Summary, SummaryDiff, SummaryDocument
from bootstrap.summary_quoting import quote_summary
from core.errors import Conflict
from core.html.page import PAGE_HEADERS
from core.ids import CollectionId, DocumentId, JobId, SummaryId, TenantId
from generation.summaries.comparison import compare_statements
from generation.summaries.registration import register_summary
from generation.summaries.rendering import SummaryPage, render_html, render_markdown
from storage import models
from storage.listings import Listings
from storage.summaries import PagesRead, SummaryRepository

router = APIRouter(prefix="/v1/summaries", tags=["summaries"], responses=problems(401, 403, 422))

_FORMATS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The summary, as JSON, or as Markdown or a page, by `format` or `Accept`.",
        "content": {"text/markdown": {"schema": {"type": "string"}}, "text/html": {}},
    }
}


@router.post("", status_code=202, responses=problems(404, 409, 413, 429))
def create_summary(
    body: NewSummary,
    principal: Asker,
    services: Services,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Summary:
    """Summarize documents: every page is read, every statement has its citation.

    Sections, documents and the collection are summarized in turn, each once: asked for again, only what
    changed is read again. Follow it at `Location`, or its job.
    """
    with services.database.write() as session:

        def make() -> tuple[str, models.Summary]:
            row = register_summary(
                session,
                principal,
                CollectionId(body.collection_id),
                body.parameters(),
                max_attempts=services.settings.worker.max_attempts,
            )
            return row.id, row

        made = make_once(
            session,
            principal.tenant_id,
            idempotency_key,
            request_hash("create_summary", body.model_dump(mode="json")),
            make=make,
            load=lambda identifier: _get(session, principal.tenant_id, identifier),
        )
        shown = _show(session, principal.tenant_id, [made.resource])[0]
        response.headers.update(warning_headers(session))
    response.headers["Location"] = f"/v1/summaries/{shown.id}"
    return shown


@router.post("/quotes", responses=problems(404, 413))
def create_summary_quote(body: NewSummary, principal: Asker, services: Services) -> Quote:
    """What the summary would take and cost: tokens, price and seconds. Nothing is read or asked.

    What the latest version of it has read already is expected to cost nothing.
    """
    with services.database.read() as session:
        quote = quote_summary(
            session,
            principal.tenant_id,
            services.settings,
            collection_id=CollectionId(body.collection_id),
            parameters=body.parameters(),
        )
    return Quote.of(quote)


@router.get("", responses=problems(404))
def list_summaries(
    page: NewestFirst,
    principal: Asker,
    services: Services,
    collection_id: OfCollection = None,
    versions_of: Annotated[
        str | None, Query(max_length=100, description="Only versions of the summary of this id.")
    ] = None,
) -> ListOf[Summary]:
    """The tenant's summaries, newest first."""
    with services.database.read() as session:
        wanted = find_wanted(session, principal.tenant_id, collection_id)
        one = None if versions_of is None else _get(session, principal.tenant_id, versions_of)
        rows = SummaryRepository(session, principal.tenant_id).list_page(
            page, collection_id=wanted, versions_of=one
        )
        items = _show(session, principal.tenant_id, rows.items)
    return ListOf(items=items, next_cursor=rows.next_cursor)


@router.get("/{summary_id}", response_model=Summary, responses=_FORMATS | problems(404))
def get_summary(
    summary_id: str,
    principal: Asker,
    services: Services,
    format: Annotated[
        Format | None, Query(description="Left out: what `Accept` prefers, else `json`.")
    ] = None,
    accept: Annotated[str, Header(max_length=1000)] = "",
) -> Summary | Response:
    """One summary; as Markdown or as a page, with its sources and what was read."""
    with services.database.read() as session:
        row = _get(session, principal.tenant_id, summary_id)
        shown = _show(session, principal.tenant_id, [row])[0]
        wanted = format or _preferred(accept)
        if wanted == "json":
            return shown
        page = _page(session, principal.tenant_id, row, shown)
    if wanted == "html":
        return HTMLResponse(render_html(page), headers=PAGE_HEADERS)
    return Response(render_markdown(page), media_type="text/markdown; charset=utf-8")


@router.get("/{summary_id}/documents", responses=problems(404))
def list_summary_documents(
    summary_id: str,
    principal: Asker,
    services: Services,
    first: FirstPosition,
    limit: Limit = 50,
) -> ListOf[SummaryDocument]:
    """A summary's documents in order: what is said of each, and what of it was read."""
    with services.database.read() as session:
        row = _get(session, principal.tenant_id, summary_id)
        rows = SummaryRepository(session, principal.tenant_id).list_parts(
            SummaryId(row.id), first=first, limit=limit + 1
        )
        named = [DocumentId(each.document_id) for each in rows]
        withdrawn = Listings(session, principal.tenant_id).deleted_documents(named)
    items = [SummaryDocument.of(each, withdrawn=withdrawn) for each in rows[:limit]]
    return ListOf(items=items, next_cursor=str(rows[limit].position) if len(rows) > limit else None)


@router.get("/{summary_id}/diff", responses=problems(404, 409))
def compare_summaries(
    summary_id: str,
    principal: Asker,
    services: Services,
    against: Annotated[
        str | None, Query(max_length=100, description="An earlier run; left out: the version before.")
    ] = None,
) -> SummaryDiff:
    """What this run says and the other did not, statement by statement."""
    with services.database.read() as session:
        after = _get(session, principal.tenant_id, summary_id)
        before = (
            SummaryRepository(session, principal.tenant_id).find_previous(after)
            if against is None
            else _get(session, principal.tenant_id, against)
        )
    if before is None:
        raise Conflict(
            f"Summary {summary_id} has no complete version before it.",
            remedy="Name another run in `against`.",
            summary_id=summary_id,
        )
    for row in (before, after):
        if row.outcome is None:
            raise Conflict(
                f"Summary {row.id} is not finished.",
                remedy="Follow its job, and compare then.",
                summary_id=row.id,
            )
    found = compare_statements(before.result["statements"], after.result["statements"])
    return SummaryDiff.model_validate(found | {"before": before.id, "after": after.id})


# ---- parts -----------------------------------------------------------------------------------


def _get(session: Session, tenant_id: TenantId, summary_id: str) -> models.Summary:
    return SummaryRepository(session, tenant_id).get(SummaryId(summary_id))


def _show(session: Session, tenant_id: TenantId, rows: Sequence[models.Summary]) -> list[Summary]:
    listings = Listings(session, tenant_id)
    jobs = listings.jobs([JobId(row.job_id) for row in rows])
    pages = SummaryRepository(session, tenant_id).coverage([SummaryId(row.id) for row in rows])
    cited = {
        DocumentId(citation["document_id"]) for row in rows for citation in row.result.get("citations", ())
    }
    withdrawn = listings.deleted_documents(sorted(cited)) if cited else frozenset()
    nothing = PagesRead(0, 0, 0)
    return [
        Summary.of(row, jobs[JobId(row.job_id)], pages.get(SummaryId(row.id), nothing), withdrawn=withdrawn)
        for row in rows
    ]


def _page(session: Session, tenant_id: TenantId, row: models.Summary, shown: Summary) -> SummaryPage:
    summaries = SummaryRepository(session, tenant_id)
    documents = list(summaries.all_parts(SummaryId(row.id)))
    title = documents[0].document_name if len(documents) == 1 else summaries.collection_name(row)
    return SummaryPage(
        id=row.id,
        title=title,
        version=row.version,
        style=str(row.parameters["style"]),
        outcome=row.outcome,
        created_at=row.created_at,
        statements=[each.model_dump() for each in shown.statements],
        citations=[each.model_dump() for each in shown.citations],
        warnings=shown.warnings,
        documents=[
            {
                "name": each.document_name,
                "num_pages": each.num_pages,
                "num_pages_read": each.num_pages_read,
                "skipped": each.skipped,
            }
            for each in documents
        ],
        not_ready=row.not_ready,
    )


def _preferred(accept: str) -> Format:
    """The first of our formats that the header names; order stands for preference."""
    names: dict[str, Format] = {
        "application/json": "json",
        "text/markdown": "markdown",
        "text/html": "html",
    }
    for part in accept.split(","):
        named = names.get(part.split(";")[0].strip().lower())
        if named is not None:
            return named
    return "json"
