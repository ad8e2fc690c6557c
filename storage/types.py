"""Column types that mean the same on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect
from sqlalchemy.types import TypeDecorator

MONEY_SCALE = 10
_UNITS = Decimal(10) ** MONEY_SCALE


class Money(TypeDecorator[Decimal]):
    """A Decimal of ten places, stored as an integer of 1e-10 units.

    SQLite has no decimal type and would round through floats; integers sum exactly on both
    databases. Ten places make every line exact: prices are per million tokens with at most four
    places (`accounting/price_book.py`), so tokens x price never needs rounding.
    """

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> int | None:
        if value is None:
            return None
        units = value * _UNITS
        if units != units.to_integral_value():
            raise ValueError(f"{value} has more than {MONEY_SCALE} decimal places")
        return int(units)

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        # SUM() gives PostgreSQL's numeric, so an int is not promised here.
        return None if value is None else Decimal(int(value)) / _UNITS


class UtcDateTime(TypeDecorator[datetime]):
    """A timezone-aware UTC datetime; SQLite stores it without the zone, so it is put back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("naive datetime: pass one with a zone")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
