"""The parameters of each action that a schedule can have: the body of the route that does it at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from api.schemas.batches import StoredBatch
from api.schemas.evaluations import NewEvaluation
from api.schemas.extractions import NewExtraction
from api.schemas.reports import NewCostReport
from api.schemas.summaries import NewSummary
from core.errors import InvalidInput


class Schedulable(Protocol):
    """A body of such a route."""

    @classmethod
    def model_validate(cls, obj: Any) -> Self: ...

    def order(self) -> dict[str, Any]:
        """What `bootstrap/schedulable_actions.py` registers it from, as JSON."""
        ...


BODIES: Mapping[str, type[Schedulable]] = {
    "batch": StoredBatch,
    "cost_report": NewCostReport,
    "extraction": NewExtraction,
    "evaluation": NewEvaluation,
    "summary": NewSummary,
}


def read_order(action: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What to keep of an action's parameters.

    Raises:
        InvalidInput: there is no such action.
        RequestValidationError: its route would refuse the parameters.
    """
    if action not in BODIES:
        raise InvalidInput(
            f"There is no action {action!r}.",
            remedy=f"Choose from {', '.join(sorted(BODIES))}.",
            action=action,
        )
    try:
        return BODIES[action].model_validate(parameters).order()
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", "parameters", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error
