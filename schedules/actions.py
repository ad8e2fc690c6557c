"""What a schedule can do: begin a job, as the route of the same noun does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from core.ids import JobId
from tenancy.principal import Principal, Scope

Register = Callable[[Session, Principal, Mapping[str, Any]], JobId]


@dataclass(frozen=True, slots=True)
class ScheduledAction:
    """`register` queues the work that the parameters describe, in the caller's transaction, and gives its job.

    A `LongleafError` that it raises becomes the outcome of the run; a `NotFound`, since what is gone does
    not come back, pauses the schedule. `scope`: what starting such work takes.
    """

    scope: Scope
    register: Register


Actions = Mapping[str, ScheduledAction]
