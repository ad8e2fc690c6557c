"""What finding out about engines used, on the ledger of whom the house belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import structlog
from sqlalchemy.exc import SQLAlchemyError

from accounting.billing import BurnReason, burned
from accounting.ledger import Ledger, generation_lines
from core.errors import LongleafError
from core.ids import TenantId, new_id
from core.usage import TokenUsage
from inference.protocols import EngineInfo
from storage.database import Database
from tenancy.tenants import DEFAULT_TENANT_NAME, find_tenant_by_name

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ProbeAccounts:
    """Burned lines under the default tenant. A question does not fail because they cannot be written."""

    database: Database
    ledger: Ledger

    def record(self, info: EngineInfo, usage: TokenUsage) -> None:
        lines = generation_lines(
            usage, source=new_id("probe"), attempt=1, model=info.model, model_revision=info.revision
        )
        try:
            with self.database.write() as session:
                operator = find_tenant_by_name(session, DEFAULT_TENANT_NAME)
                if operator is not None:
                    self.ledger.record(session, TenantId(operator.id), burned(lines, BurnReason.PROBE))
        except (SQLAlchemyError, LongleafError) as error:
            log.warning("engine.probe_unrecorded", error=type(error).__name__)
