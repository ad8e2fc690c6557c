"""What routes ask for by annotation."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Query, Request

from api.job_events import JobEventReader
from bootstrap.api_services import ApiServices
from core.errors import InvalidInput
from storage.paging import MAX_LIMIT, PageRequest

MAX_CURSOR_LENGTH = 300


async def _services(request: Request) -> ApiServices:
    services: ApiServices = request.app.state.services
    return services


async def _job_events(request: Request) -> JobEventReader:
    reader: JobEventReader = request.app.state.job_events
    return reader


Services = Annotated[ApiServices, Depends(_services)]
JobEvents = Annotated[JobEventReader, Depends(_job_events)]

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Most items to give.")]
Cursor = Annotated[
    str | None, Query(max_length=MAX_CURSOR_LENGTH, description="`next_cursor` of the previous page.")
]


async def _oldest_first(limit: Limit = 50, cursor: Cursor = None) -> PageRequest:
    return PageRequest(limit=limit, cursor=cursor)


async def _newest_first(limit: Limit = 50, cursor: Cursor = None) -> PageRequest:
    return PageRequest(limit=limit, cursor=cursor, newest_first=True)


async def _position(
    cursor: Annotated[
        str | None, Query(max_length=20, description="`next_cursor` of the previous page.")
    ] = None,
) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise InvalidInput(
            "The cursor is not one that this list gave.",
            remedy="Leave it out to start from the first page.",
        )
    return int(cursor)


FirstPosition = Annotated[int, Depends(_position)]
"""Of lists whose items have places: the first one to give."""

OldestFirst = Annotated[PageRequest, Depends(_oldest_first)]
NewestFirst = Annotated[PageRequest, Depends(_newest_first)]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Your name for this write. Repeating it gives the first result again.",
    ),
]
