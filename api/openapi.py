"""What the OpenAPI document says beside the routes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from api.schemas.problems import Problem

TITLE = "Longleaf"
DESCRIPTION = """\
Answers questions over long documents, in English and Chinese alike, with citations and what they cost.

Upload documents into a **collection**, follow the **job** until they are `ready`, ask **questions**.
Send your API key as `Authorization: Bearer ll_…`. Errors are RFC 9457 problems
(`application/problem+json`) with a stable `code`, a `detail` and a `remedy`. Lists page by `cursor`.
Another tenant's objects do not exist. Writes take an `Idempotency-Key`.
"""
TAGS = [
    {"name": "collections", "description": "Documents that are searched together."},
    {"name": "documents", "description": "Upload, list, read and delete them."},
    {"name": "jobs", "description": "Work that goes on after the response."},
    {"name": "queues", "description": "What waits and runs, over all tenants; pausing it. The operator's."},
    {"name": "questions", "description": "Ask, and wait, come back or stream."},
    {"name": "quotes", "description": "What a question would take and cost."},
    {"name": "answers", "description": "What was answered, with citations, usage and cost."},
    {"name": "traces", "description": "How an answer came to be, token by token."},
    {"name": "conversations", "description": "Questions that refer to those before them."},
    {"name": "batches", "description": "Files of questions, answered as one offline job."},
    {"name": "evaluations", "description": "Questions with known answers, scored and compared."},
    {"name": "extractions", "description": "Tables out of documents, with a citation for each cell."},
    {"name": "schedules", "description": "Work that begins by itself when it is due."},
    {"name": "summaries", "description": "Documents in short, with a citation for each statement."},
    {"name": "reports", "description": "What was consumed, and what it cost."},
    {"name": "webhooks", "description": "Be told of what happens, signed, with a log of each delivery."},
    {"name": "budgets", "description": "How much may be used, and how much of it is."},
    {"name": "keys", "description": "API keys of the tenant."},
    {"name": "tenants", "description": "Who owns what; for the operator."},
    {"name": "operation", "description": "Health and metrics."},
]


def operation_id(route: APIRoute) -> str:
    """The route's own name; each is used once."""
    return route.name


def add_problem_schema(app: FastAPI) -> None:
    """Define what the routes' documented problems refer to."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        if "Problem" not in schemas:
            schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas["Problem"] = schema
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend it
