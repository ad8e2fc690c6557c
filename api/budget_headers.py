"""`Longleaf-Budget-Warning`: what a caller is told of budgets that are nearly used up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from accounting.budgets import Standing
from accounting.holds import budget_warnings

WARNING = "Longleaf-Budget-Warning"


def warning_headers(session: Session) -> Mapping[str, str]:
    """Of the budgets that the transaction's jobs count against, those past a threshold."""
    return headers_of(budget_warnings(session))


def headers_of(standings: Sequence[Standing]) -> Mapping[str, str]:
    """One header for all of them; none where there are none."""
    return {WARNING: ", ".join(_item(standing) for standing in standings)} if standings else {}


def _item(standing: Standing) -> str:
    """An item of a structured field (RFC 9651): the budget's id, with its figures as parameters."""
    budget = standing.budget
    reset = f';reset="{standing.reset_at.isoformat()}"' if standing.reset_at else ""
    return (
        f'"{budget.id}";state={standing.state};used="{standing.amount(standing.used)}"'
        f';limit="{standing.amount(budget.limit)}";unit="{budget.currency or budget.unit}"{reset}'
    )
