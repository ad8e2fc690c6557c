"""Makes the nodes of one run, or finds them made. Each is a transaction of its own, so a worker that dies
loses one at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy.orm import Session

from accounting.billing import BurnReason, burn_reason, burned
from accounting.holds import Estimate, reserve
from accounting.ledger import Ledger, LedgerLine
from accounting.money import cost_of
from accounting.price_table import prices_at
from core.clock import utc_now
from core.errors import BudgetExceeded, BudgetHeld
from core.ids import SummaryId, TenantId
from generation.accounts import consumption_lines
from generation.consumption import Consumption
from generation.summaries.nodes import pack_vectors
from generation.summaries.parameters import SummaryParameters
from generation.summaries.writing import Ceiling, Written
from inference.protocols import Generator
from storage.database import Database
from storage.job_run import JobRun
from storage.models import Job, Summary, SummaryNode
from storage.summaries import SummaryRepository

_MARKED_FOR = timedelta(hours=1)
"""A node is marked as used at most so often; retention counts in days."""


class SliceOver(Exception):
    """The worker's time for this slice is used up; what was made is kept."""


class LimitReached(Exception):
    """The next node could exceed the run's limit, or a budget has nothing left."""


class NodeMaker:
    """One slice of one run. `num_tokens` and `cost` are what the run has spent, in all its slices."""

    def __init__(
        self,
        *,
        database: Database,
        ledger: Ledger,
        generator: Generator,
        run: JobRun,
        summary: Summary,
        parameters: SummaryParameters,
        deadline: float,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._generator = generator
        self._run = run
        self._summary = summary
        self._parameters = parameters
        self._deadline = deadline
        self._has_made = False
        self.num_tokens = summary.num_tokens
        self.cost = summary.cost

    def find(self, keys: Sequence[str]) -> dict[str, SummaryNode]:
        """Nodes that were made before, in this run or in another."""
        tenant_id, now = self._run.job.tenant_id, utc_now()
        with self._database.read() as session:
            found = SummaryRepository(session, tenant_id).find_nodes(keys)
        if unmarked := [key for key, node in found.items() if node.used_at < now - _MARKED_FOR]:
            with self._database.write() as session:
                SummaryRepository(session, tenant_id).touch_nodes(unmarked, at=now)
        return found

    def make(
        self,
        key: str,
        *,
        ceiling: Ceiling,
        write: Callable[[Consumption], Written],
        as_json: Callable[[Written], list[dict[str, Any]]],
        document_id: str | None,
        progress: dict[str, Any],
    ) -> Written:
        """Write a node and keep it with what it took.

        Raises:
            SliceOver: before it is begun, where the slice has made one and its time is used up.
            LimitReached: before it is begun, where it could exceed the run's limit, or a budget that it
                counts against is used up.
            BudgetHeld: before it is begun, where others hold what is left.
        """
        self._run.checkpoint()
        if self._has_made and time.monotonic() >= self._deadline:
            raise SliceOver
        self._stay_within(ceiling)
        consumption = Consumption()
        try:
            made = write(consumption)
            self._keep(key, made, as_json(made), document_id, consumption, progress)
        except Exception as error:  # whatever the reason, the tokens were spent
            self._record_burned(key, document_id, consumption, burn_reason(error))
            raise
        self._has_made = True
        return made

    def _stay_within(self, ceiling: Ceiling) -> None:
        """The run's own limits; and budgets, of which the node's ceiling is held until it is charged."""
        limits = self._parameters
        with self._database.write() as session:
            most = _most(session, ceiling, self._run.job.tenant_id)
            if limits.max_tokens is not None and self.num_tokens + most.most_tokens > limits.max_tokens:
                raise LimitReached
            if limits.max_cost is not None and self.cost + most.most_cost > limits.max_cost:
                raise LimitReached
            try:
                reserve(session, session.get_one(Job, self._run.job.id), lambda: most)
            except BudgetHeld:  # it passes
                raise
            except BudgetExceeded as error:
                raise LimitReached from error

    def _keep(
        self,
        key: str,
        made: Written,
        statements: list[dict[str, Any]],
        document_id: str | None,
        consumption: Consumption,
        progress: dict[str, Any],
    ) -> None:
        lines = self._lines(key, document_id, consumption)
        with self._database.write() as session:
            self._run.confirm(session)
            summaries = SummaryRepository(session, self._run.job.tenant_id)
            if not summaries.add_node(key, statements, pack_vectors(made.vectors)):
                # Another run made the same meanwhile and pays for it: this work was for nothing.
                lines = burned(lines, BurnReason.LOST)
            entries = self._ledger.record(session, self._run.job.tenant_id, lines)
            billed = [entry for entry in entries if entry.billed]
            counted = summaries.count_spent(
                SummaryId(self._summary.id),
                num_tokens=sum(entry.num_tokens for entry in billed),
                cost=sum((entry.cost for entry in billed), Decimal(0)),
                currency=billed[0].currency if billed else "",
            )
            self.num_tokens, self.cost = counted.num_tokens, counted.cost
            self._run.set_progress(session, progress | {"nodes_computed": counted.num_computed})

    def _record_burned(
        self, key: str, document_id: str | None, consumption: Consumption, reason: BurnReason
    ) -> None:
        lines = burned(self._lines(key, document_id, consumption), reason)
        with self._database.write() as session:
            self._ledger.record(session, self._run.job.tenant_id, lines)

    def _lines(self, key: str, document_id: str | None, consumption: Consumption) -> list[LedgerLine]:
        """A node's lines are its own in each attempt: written twice, they are there once."""
        whose = {
            "source": f"{self._summary.id}/{key[:32]}",
            "attempt": self._run.job.attempt,
            "key_id": self._run.job.key_id,
            "job_id": self._run.job.id,
            "collection_id": self._summary.collection_id,
            "document_id": document_id,
        }
        return consumption_lines(consumption, self._generator, whose)


def _most(session: Session, ceiling: Ceiling, tenant_id: TenantId) -> Estimate:
    """What a node takes at most. It is begun where anything is left, so nothing is expected as a rule."""
    prices = prices_at(
        session, [(model, stage) for model, stage, _ in ceiling], utc_now(), tenant_id=tenant_id
    )
    costs = (cost_of(tokens, prices[model, stage].price_per_million) for model, stage, tokens in ceiling)
    return Estimate(
        most_tokens=sum(tokens for _, _, tokens in ceiling), most_cost=sum(costs, start=Decimal(0))
    )
