"""Keeps of passages the sentences that answer, verbatim, by one of four methods."""

from __future__ import annotations

from retrieval.extraction.choice import ChoiceExtractor
from retrieval.extraction.cross_encoder import CrossEncoderExtractor
from retrieval.extraction.embedding import SURE_LEAD, EmbeddingExtractor
from retrieval.extraction.protocol import ExtractedSentence, ExtractedSpan, Extraction, PassageExtractor
from retrieval.extraction.rule import RuleExtractor

__all__ = [
    "SURE_LEAD",
    "ChoiceExtractor",
    "CrossEncoderExtractor",
    "EmbeddingExtractor",
    "ExtractedSentence",
    "ExtractedSpan",
    "Extraction",
    "PassageExtractor",
    "RuleExtractor",
]
