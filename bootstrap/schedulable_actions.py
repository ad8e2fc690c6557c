"""What schedules can do. A new action gets a line here, and one in `api/schemas/schedulable_actions.py`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy.orm import Session

from accounting.stored_reports import ReportParameters, register_report
from core.clock import utc_now
from core.ids import CollectionId, JobId
from core.settings import Settings
from evaluation.questions import GoldQuestion
from evaluation.registration import register_evaluation
from generation.batches.registration import BatchLine, register_batch
from generation.extraction_tables.registration import ExtractionParameters, register_extraction
from generation.questions import QuestionParameters
from generation.summaries.parameters import SummaryParameters
from generation.summaries.registration import register_summary
from schedules.actions import Actions, ScheduledAction
from schedules.firing import ScheduleRunner
from tenancy.principal import Principal, Scope


def build_schedule_runner(settings: Settings) -> ScheduleRunner:
    return ScheduleRunner(build_actions(max_attempts=settings.worker.max_attempts))


def build_actions(*, max_attempts: int) -> Actions:
    """By the names that callers use. Each is given the order that its body in the API made."""

    def extraction(session: Session, principal: Principal, order: Mapping[str, Any]) -> JobId:
        row = register_extraction(
            session,
            principal,
            CollectionId(order["collection_id"]),
            ExtractionParameters.of_json(order["parameters"]),
            max_attempts=max_attempts,
        )
        return JobId(row.job_id)

    def evaluation(session: Session, principal: Principal, order: Mapping[str, Any]) -> JobId:
        row = register_evaluation(
            session,
            principal,
            CollectionId(order["collection_id"]),
            [GoldQuestion.model_validate(question) for question in order["questions"]],
            name=order["name"],
            parameters=QuestionParameters.of_json(order["parameters"]),
            max_attempts=max_attempts,
        )
        return JobId(row.job_id)

    def batch(session: Session, principal: Principal, order: Mapping[str, Any]) -> JobId:
        seconds, max_cost = order["expires_after_seconds"], order["max_cost"]
        row = register_batch(
            session,
            principal,
            CollectionId(order["collection_id"]),
            [BatchLine.of_json(line) for line in order["lines"]],
            name=order["name"],
            max_cost=None if max_cost is None else Decimal(max_cost),
            expires_at=None if seconds is None else utc_now() + timedelta(seconds=seconds),
            max_attempts=max_attempts,
        )
        return JobId(row.job_id)

    def summary(session: Session, principal: Principal, order: Mapping[str, Any]) -> JobId:
        row = register_summary(
            session,
            principal,
            CollectionId(order["collection_id"]),
            SummaryParameters.of_json(order["parameters"]),
            max_attempts=max_attempts,
        )
        return JobId(row.job_id)

    def report(session: Session, principal: Principal, order: Mapping[str, Any]) -> JobId:
        parameters = ReportParameters.of_json(order)
        row = register_report(session, principal, parameters, max_attempts=max_attempts, now=utc_now())
        return JobId(row.job_id)

    return {
        "batch": ScheduledAction(Scope.ASK, batch),
        "cost_report": ScheduledAction(Scope.REPORTS, report),
        "extraction": ScheduledAction(Scope.ASK, extraction),
        "evaluation": ScheduledAction(Scope.ASK, evaluation),
        "summary": ScheduledAction(Scope.ASK, summary),
    }
