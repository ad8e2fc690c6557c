"""A dated price book: what is read from a file, checked, before any of it counts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from accounting.money import MAX_PRICE_PER_MILLION, MAX_PRICE_PLACES
from accounting.stages import Rate, Stage, parse_priced
from core.errors import Misconfigured

PACKAGED = Path(__file__).with_name("prices.toml")
ANY_MODEL = "*"
LIST_PRICE = ""
"""In place of a tenant: a price for all who have none of their own."""

_FIELDS = {"model", "revision", "effective_from", "tenant"}
_REMEDY = "Mend the price book; the packaged one, accounting/prices.toml, explains its form."


@dataclass(frozen=True, slots=True)
class PriceKey:
    """What a price is for, and from when. An empty `revision` stands for all of the model's."""

    tenant_id: str
    model: str
    stage: Stage | Rate
    effective_from: datetime
    revision: str = ""

    def __str__(self) -> str:
        which = f" revision {self.revision!r}" if self.revision else ""
        whose = f" of {self.tenant_id}" if self.tenant_id else ""
        return f"{self.stage.value} of model {self.model!r}{which}{whose} from {self.effective_from:%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Prices per million tokens and rates per hour, all in one currency."""

    currency: str
    prices: Mapping[PriceKey, Decimal]


def load_price_book(path: Path | None = None) -> PriceBook:
    """The price book in `path`, by default the packaged one.

    Raises:
        Misconfigured: it cannot be read, or something in it is wrong; the message says which entry.
    """
    path = path or PACKAGED
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise Misconfigured(
            f"The price book {path} cannot be read: {error.strerror}.", remedy="Check LONGLEAF_PRICE_BOOK."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"The price book {path} is not TOML: {error}.", remedy=_REMEDY) from error
    return parse_price_book(document, name=str(path))


def parse_price_book(document: Mapping[str, Any], *, name: str) -> PriceBook:
    """A price book from what TOML gives; `name` is what errors call it.

    Raises:
        Misconfigured: a currency or a date is missing or malformed; a field or stage is unknown; a
            price is not a number, negative, absurdly high or finer than four decimal places; the
            same model, stage and date come twice; a stage has no price for every model, or has one
            only after another price of it has begun.
    """
    try:
        currency = _currency(document)
        prices: dict[PriceKey, Decimal] = {}
        for number, entry in enumerate(_entries(document), start=1):
            for key, price in _parse_entry(entry, number):
                if key in prices:
                    raise ValueError(f"the price for {key} is given twice")
                prices[key] = price
        _check_complete(prices)
    except ValueError as error:
        raise Misconfigured(f"The price book {name} is wrong: {error}.", remedy=_REMEDY) from error
    return PriceBook(currency, prices)


def _currency(document: Mapping[str, Any]) -> str:
    unknown = sorted(set(document) - {"currency", "prices"})
    if unknown:
        raise ValueError(f"it has an unknown field {unknown[0]!r}")
    currency = document.get("currency")
    if not isinstance(currency, str) or re.fullmatch("[A-Z]{3}", currency) is None:
        raise ValueError(f"currency is {currency!r}, not three capital letters such as USD")
    return currency


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = document.get("prices")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("it has no [[prices]]")
    return entries


def check_key(key: PriceKey) -> None:
    """Raises `ValueError` for a price that could never apply, or must not exist."""
    if key.revision and key.model == ANY_MODEL:
        raise ValueError(f"revision {key.revision!r} is of no model; name the model")
    if isinstance(key.stage, Rate) and key.tenant_id != LIST_PRICE:
        raise ValueError(f"{key.stage.value} is what a machine costs; it has no price of a tenant's own")


def check_price(price: Decimal) -> None:
    """Raises `ValueError` for a price that is no amount of money, negative, absurd or too fine."""
    if not price.is_finite():
        raise ValueError(f"the price {price} is not a number")
    if price < 0:
        raise ValueError(f"the price {price} is negative")
    if price > MAX_PRICE_PER_MILLION:
        raise ValueError(f"the price {price} is above {MAX_PRICE_PER_MILLION} per million tokens")
    if price != round(price, MAX_PRICE_PLACES):
        raise ValueError(f"the price {price} has more than {MAX_PRICE_PLACES} decimal places")


def _parse_entry(entry: Mapping[str, Any], number: int) -> Iterator[tuple[PriceKey, Decimal]]:
    where = f"[[prices]] number {number}"
    model, tenant = entry.get("model"), entry.get("tenant", LIST_PRICE)
    revision = entry.get("revision", "")
    if not isinstance(model, str) or not model.strip():
        raise ValueError(f"{where} names no model")
    if not isinstance(tenant, str) or ("tenant" in entry and not tenant.strip()):
        raise ValueError(f"{where} has a tenant that is no id")
    if not isinstance(revision, str) or ("revision" in entry and not revision.strip()):
        raise ValueError(f"{where} has a revision that is no name")
    effective_from = _moment(entry.get("effective_from"), where)
    stages = sorted(set(entry) - _FIELDS)
    if not stages:
        raise ValueError(f"{where} prices no stage")
    for stage in stages:
        try:
            key = PriceKey(tenant, model, parse_priced(stage), effective_from, revision)
            check_key(key)
            price = _number(entry[stage])
            check_price(price)
        except ValueError as error:
            raise ValueError(f"{where} ({model}, {stage}): {error}") from error
        yield key, price


def _moment(value: object, where: str) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{where}: effective_from {value} has no time zone; add Z for UTC")
        return value.astimezone(UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    raise ValueError(f"{where}: effective_from is {value!r}, not a date such as 2026-01-01")


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError(f"the price {value!r} is not a number")
    return Decimal(value)


def _check_complete(prices: Mapping[PriceKey, Decimal]) -> None:
    for stage in Stage:
        of_stage = [key for key in prices if key.stage is stage]
        general = [key for key in of_stage if key.model == ANY_MODEL and key.tenant_id == LIST_PRICE]
        if not general:
            raise ValueError(f'{stage.value} has no list price for every model: give one for model = "*"')
        first = min(key.effective_from for key in general)
        early = next((key for key in of_stage if key.effective_from < first), None)
        if early is not None:
            raise ValueError(
                f"the price for {early} begins before that for every model, {first:%Y-%m-%d}: until then "
                "other models have none"
            )
