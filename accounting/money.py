"""Amounts: exact until an invoice is made, and rounded there only."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

MAX_PRICE_PER_MILLION = Decimal(100_000)
MAX_PRICE_PLACES = 4
PRICE_UNIT_TOKENS = 1_000_000
_LEDGER_UNIT = Decimal(1).scaleb(-10)

# ISO 4217; all other currencies have two places.
_NO_PLACES = frozenset(
    {"BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV"}
    | {"XAF", "XOF", "XPF"}
)
_THREE_PLACES = frozenset(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"))


def cost_of(num_tokens: int, price_per_million: Decimal) -> Decimal:
    """Exact: six places for the million and four for the price are the ten that the ledger keeps."""
    return (price_per_million * num_tokens).scaleb(-6)


def cost_of_time(seconds: float, price_per_hour: Decimal) -> Decimal:
    """Rounded half to even to the ten places that the ledger keeps, once, when the line is written:
    what is summed afterwards is summed exactly."""
    return (Decimal(repr(seconds)) * price_per_hour / 3600).quantize(_LEDGER_UNIT, rounding=ROUND_HALF_EVEN)


def invoice_total(amount: Decimal, currency: str) -> Decimal:
    """What an invoice says: `amount` in the currency's minor units, half to even.

    Only a total is ever rounded; rounding lines or groups first would make their sum another.
    """
    places = 0 if currency in _NO_PLACES else 3 if currency in _THREE_PLACES else 2
    return amount.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN)


def format_amount(amount: Decimal) -> str:
    """Every digit and no exponent, as in `0.0000028`."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
