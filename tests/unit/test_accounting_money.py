from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.money import MAX_PRICE_PER_MILLION, cost_of, format_amount, invoice_total
from storage.types import MONEY_SCALE

prices = st.decimals(min_value=0, max_value=MAX_PRICE_PER_MILLION, places=4)


@given(num_tokens=st.integers(0, 10**9), price=prices)
def test_a_cost_is_exact_and_fits_the_ledgers_ten_places(num_tokens: int, price: Decimal) -> None:
    cost = cost_of(num_tokens, price)
    assert Fraction(cost) == Fraction(price) * num_tokens / 10**6
    assert cost == round(cost, MONEY_SCALE)


@pytest.mark.parametrize(
    ("amount", "currency", "expected"),
    [
        ("0.005", "USD", "0.00"),
        ("0.015", "USD", "0.02"),
        ("0.025", "USD", "0.02"),
        ("0.0250000001", "USD", "0.03"),
        ("1.5", "JPY", "2"),
        ("2.5", "JPY", "2"),
        ("0.0005", "KWD", "0.000"),
        ("12.345", "CNY", "12.34"),
    ],
)
def test_an_invoice_rounds_half_to_even_in_the_currencys_own_units(
    amount: str, currency: str, expected: str
) -> None:
    assert str(invoice_total(Decimal(amount), currency)) == expected


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0E-10", "0"), ("2.8E-6", "0.0000028"), ("10.500", "10.5"), ("1E+2", "100"), ("100", "100")],
)
def test_amounts_are_shown_with_every_digit_and_no_exponent(amount: str, text: str) -> None:
    assert format_amount(Decimal(amount)) == text
