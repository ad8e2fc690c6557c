"""Lists page by an opaque cursor over (created_at, id), so that inserts never shift a page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, and_, or_
from sqlalchemy.orm import Session

from core.errors import InvalidInput

Row = TypeVar("Row")

MAX_LIMIT = 200


@dataclass(frozen=True, slots=True)
class PageRequest:
    limit: int = 50
    cursor: str | None = None
    newest_first: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    items: Sequence[Row]
    next_cursor: str | None


def paginate(session: Session, query: Select[Row], model: Any, request: PageRequest) -> Page[Row]:
    """One page of `query`, whose `model` has `created_at` and `id`.

    Raises:
        InvalidInput: the cursor is not one that a previous page gave, or the limit is out of range.
    """
    if not 1 <= request.limit <= MAX_LIMIT:
        raise InvalidInput(
            f"limit is {request.limit}; it must be from 1 to {MAX_LIMIT}.", limit=request.limit
        )
    key = (model.created_at, model.id)
    if request.cursor is not None:
        created_at, identifier = _decode(request.cursor)
        if request.newest_first:
            after = or_(key[0] < created_at, and_(key[0] == created_at, key[1] < identifier))
        else:
            after = or_(key[0] > created_at, and_(key[0] == created_at, key[1] > identifier))
        query = query.where(after)
    order = [column.desc() for column in key] if request.newest_first else list(key)
    rows = list(session.scalars(query.order_by(*order).limit(request.limit + 1)))
    items: list[Any] = rows[: request.limit]
    more = len(rows) > request.limit
    return Page(items, _encode(items[-1].created_at, items[-1].id) if more else None)


def _encode(created_at: datetime, identifier: str) -> str:
    return base64.urlsafe_b64encode(f"{created_at.isoformat()}|{identifier}".encode()).decode()


def _decode(cursor: str) -> tuple[datetime, str]:
    try:
        moment, identifier = base64.urlsafe_b64decode(cursor.encode()).decode().split("|", 1)
        parsed = datetime.fromisoformat(moment)
        if parsed.tzinfo is None:
            raise ValueError("cursor without zone")
        return parsed.astimezone(UTC), identifier
    except (ValueError, OverflowError, binascii.Error, UnicodeError) as error:
        raise InvalidInput(
            "The cursor is not one that this list gave.",
            remedy="Leave it out to start from the first page.",
        ) from error
