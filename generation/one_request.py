"""One request to the engine, of work that nobody watches being written."""

from __future__ import annotations

from core.cancellation import Checkpoint
from core.precedence import current_precedence
from generation.consumption import Consumption
from inference.protocols import GenerationRequest, Generator


def written(
    generator: Generator, request: GenerationRequest, consumption: Consumption, checkpoint: Checkpoint
) -> tuple[str, str]:
    """The text and why it ended; what it took is added to `consumption`, however it ends."""
    usage, engine = consumption.usage, consumption.engine
    text, finish_reason = "", ""
    current_precedence().give_way()
    with generator.stream(request) as deltas:
        for delta in deltas:
            consumption.usage = usage + delta.usage
            if delta.timings is not None:
                consumption.engine = engine.then(delta.timings)
            checkpoint()
            text += delta.text
            finish_reason = delta.finish_reason or finish_reason
    return text.strip(), finish_reason
