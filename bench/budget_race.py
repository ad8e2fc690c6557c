"""Many who ask at once, against a budget that has room for a fraction of them.

Each asks as the API does, in a transaction that holds what the question may take; the answer's cost is
known beforehand and goes on the ledger as a worker's would. When all have been answered or refused, all
ask again, until the budget is used up for everybody.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count

from sqlalchemy.orm import Session

from accounting.budgets import create_budget, get_budget, standing_of, sum_of_ledger
from accounting.holds import Estimate
from accounting.ledger import Ledger, LedgerLine
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from accounting.stages import Stage
from core.clock import utc_now
from core.errors import BudgetExceeded
from core.ids import BudgetId, CollectionId, JobId, TenantId
from generation.questions import QuestionParameters, register_question
from storage.collections import CollectionRepository
from storage.database import Database
from storage.jobs import JobQueue
from storage.models import Job
from tenancy.keys import issue_key
from tenancy.principal import Principal, Scope
from tenancy.tenants import create_tenant

NUM_THREADS = 64

TYPICAL, HOLD = 40, 100
"""Tokens that a question takes as a rule, and that are held for it."""

LIMIT = 16 * TYPICAL + 7
_LEASE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Race:
    """How it ended, in tokens. `on_ledger` is summed from the lines, apart from the budget's counter."""

    used: int
    on_ledger: int
    held: int
    num_answered: int

    @property
    def overshoot_holds(self) -> float:
        """What was used beyond the limit, in holds of a question."""
        return max(0, self.on_ledger - LIMIT) / HOLD


def measure_overshoot(database: Database, *, num_threads: int = NUM_THREADS) -> float:
    """See `Race.overshoot_holds`."""
    return race(database, num_threads=num_threads).overshoot_holds


def race(database: Database, *, num_threads: int = NUM_THREADS) -> Race:
    """Let so many ask at once until nobody may any more. The database must end jobs as the service's does."""
    track = _prepare(database)
    num_answered = 0
    with ThreadPoolExecutor(num_threads) as threads:
        for first in count(step=num_threads):
            answered = sum(threads.map(track.ask, range(first, first + num_threads)))
            if not answered:
                break
            num_answered += answered
    with database.read() as session:
        budget = get_budget(session, None, track.budget_id)
        standing = standing_of(session, budget, utc_now())
        on_ledger = sum_of_ledger(session, budget, standing.bounds)
    return Race(standing.used, on_ledger, standing.held, num_answered)


@dataclass(frozen=True, slots=True)
class _Track:
    database: Database
    caller: Principal
    collection_id: CollectionId
    budget_id: BudgetId

    def ask(self, number: int) -> bool:
        """Whether it was let in, and so answered."""
        try:
            job_id = self._register()
        except BudgetExceeded:
            return False
        # All that a question may take, or less: the limit falls anywhere in a hold.
        self._answer(job_id, HOLD - number * 29 % (HOLD - TYPICAL + 1))
        return True

    def _register(self) -> JobId:
        with self.database.write() as session:
            answer = register_question(
                session,
                self.caller,
                self.collection_id,
                "How much is left?",
                QuestionParameters(),
                max_attempts=1,
                estimate=_estimate,
            )
            return JobId(answer.job_id)

    def _answer(self, job_id: JobId, num_tokens: int) -> None:
        owner = f"racer of {job_id}"
        with self.database.write() as session:
            JobQueue(session).claim_job(job_id, owner, lease=_LEASE)
        with self.database.write() as session:
            job = session.get_one(Job, job_id)
            line = LedgerLine(
                source=job_id,
                attempt=1,
                stage=Stage.DECODE,
                model="m",
                model_revision="r",
                num_tokens=num_tokens,
                key_id=job.key_id,
                job_id=job.id,
                collection_id=job.collection_id,
            )
            JobQueue(session).finish(job_id, owner)
            Ledger().record(session, TenantId(job.tenant_id), [line])


def _estimate(
    session: Session,
    tenant_id: TenantId,
    collection_id: CollectionId,
    question: str,
    parameters: QuestionParameters,
) -> Estimate:
    return Estimate(tokens=TYPICAL, most_tokens=HOLD)


def _prepare(database: Database) -> _Track:
    now = utc_now()
    with database.write() as session:
        tenant_id = TenantId(create_tenant(session, name="racers", now=now).id)
        sync_price_book(session, load_price_book(), now=datetime(2026, 1, 1, tzinfo=UTC))
        key = issue_key(session, tenant_id, name="racers", scopes=[Scope.ASK], now=now).key
        collection = CollectionRepository(session, tenant_id).create("track")
        budget = create_budget(
            session, tenant_id, limit=Decimal(LIMIT), unit="tokens", period="total", now=now
        )
        caller = Principal(tenant_id, key.id, frozenset({Scope.ASK}))
        return _Track(database, caller, CollectionId(collection.id), BudgetId(budget.id))
