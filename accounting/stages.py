"""What is counted and priced apart."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """A kind of work by a model. Tokens are those of the model that did it, by its own tokenizer."""

    EMBED = "embed"
    RERANK = "rerank"
    EXTRACT = "extract"
    CONDENSE = "condense"
    PREFILL_UNCACHED = "prefill_uncached"
    PREFILL_CACHED = "prefill_cached"
    DECODE = "decode"
    OCR = "ocr"


class Rate(StrEnum):
    """What is priced by time: what an hour of the machine costs that a model runs on."""

    ENGINE_HOUR = "engine_hour"


GENERATOR_STAGES = (Stage.PREFILL_UNCACHED, Stage.PREFILL_CACHED, Stage.DECODE)
"""Prices of a generation engine's tokens: whatever such a line was for, the engine has counted it."""


def parse_priced(name: str) -> Stage | Rate:
    """Raises `ValueError` for what has no price."""
    known: dict[str, Stage | Rate] = {each.value: each for each in (*Stage, *Rate)}
    if name not in known:
        raise ValueError(f"unknown stage {name!r}; the stages are {', '.join(sorted(known))}")
    return known[name]
