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
