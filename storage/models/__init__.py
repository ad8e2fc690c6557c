"""The tables, by noun."""

from storage.models.answers import Answer, AnswerTrace
from storage.models.base import Base
from storage.models.batches import Batch, BatchItem
from storage.models.budgets import Budget, BudgetHold, BudgetPeriod
from storage.models.conversations import Conversation
from storage.models.documents import (
    Chunk,
    Collection,
    Document,
    DocumentTag,
    Embedding,
    IndexSegment,
    Page,
)
from storage.models.evaluations import Evaluation, EvaluationItem
from storage.models.extractions import Extraction, ExtractionRow
from storage.models.jobs import Job, OutboxMessage, QueuePause, UploadedFile
from storage.models.ledger import EngineRequest, EngineSample, LedgerEntry, Price
from storage.models.ledger_rollups import LedgerRollup
from storage.models.reports import StoredReport
from storage.models.schedules import Schedule, ScheduleRun
from storage.models.summaries import Summary, SummaryDocument, SummaryNode
from storage.models.tenants import ApiKey, IdempotencyKey, Tenant
from storage.models.webhooks import Webhook, WebhookDelivery

__all__ = [
    "Answer",
    "AnswerTrace",
    "ApiKey",
    "Base",
    "Batch",
    "BatchItem",
    "Budget",
    "BudgetHold",
    "BudgetPeriod",
    "Chunk",
    "Collection",
    "Conversation",
    "Document",
    "DocumentTag",
    "Embedding",
    "EngineRequest",
    "EngineSample",
    "Evaluation",
    "EvaluationItem",
    "Extraction",
    "ExtractionRow",
    "IdempotencyKey",
    "IndexSegment",
    "Job",
    "LedgerEntry",
    "LedgerRollup",
    "OutboxMessage",
    "Page",
    "Price",
    "QueuePause",
    "Schedule",
    "ScheduleRun",
    "StoredReport",
    "Summary",
    "SummaryDocument",
    "SummaryNode",
    "Tenant",
    "UploadedFile",
    "Webhook",
    "WebhookDelivery",
]
