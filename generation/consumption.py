"""What one attempt at an answer has used so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from accounting.stages import Stage
from core.usage import ModelUse, TokenUsage
from inference.protocols import EngineTimings


@dataclass(slots=True)
class Consumption:
    """What the ledger is told, whether the attempt succeeds or burns.

    `uses` are the steps before writing, `usage` and `engine` the generator's for the answer itself.
    """

    uses: list[tuple[Stage, ModelUse]] = field(default_factory=list)
    usage: TokenUsage = field(default_factory=TokenUsage)
    engine: EngineTimings = field(default_factory=EngineTimings)
    seconds: dict[str, float] = field(default_factory=dict)
    first_token_at: float | None = None  # time.monotonic()

    def spend(self, step: str, seconds: float) -> None:
        """Add to what `timings` says of a step, `extract_seconds` for one."""
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds

    def add(self, stage: Stage, uses: Iterable[ModelUse]) -> None:
        self.uses.extend((stage, use) for use in uses)
