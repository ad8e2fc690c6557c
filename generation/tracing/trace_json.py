"""A trace as it is stored and shown."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from core.clock import utc_now
from generation.prompt_passages import passage_id
from generation.segments import Segment
from generation.tracing.cache_marks import PlacedSegment, mark_segments
from generation.tracing.recorder import NUM_ALTERNATIVES, GenerationRecorder, TraceRecorder
from generation.tracing.token_places import TokenPlace, place_in_text, place_tokens
from generation.tracing.uncertainty import rank_of, uncertainty
from inference.engine_load import EngineLoad
from inference.protocols import ChatTokenizer, GeneratedToken, SamplingParameters, TokenChoice
from retrieval.pipeline import SearchResult
from storage.trace_redaction import redact

TRACE_VERSION = 1


def trace_json(recorder: TraceRecorder) -> dict[str, Any]:
    """For `storage.models.AnswerTrace.trace`; the reference is `docs/trace.md`."""
    spell = _TokensJson(recorder.tokenizer) if recorder.is_full and recorder.tokenizer else None
    trace = {
        "version": TRACE_VERSION,
        "detail": "full" if recorder.is_full else "light",
        "attempt": recorder.attempt,
        "error_code": recorder.error_code,
        "recorded_at": utc_now().isoformat(),
        "engine": _engine_json(recorder),
        "retrieval": None if recorder.search is None else _retrieval_json(recorder.search),
        "sentences": recorder.sentences,
        "generations": [
            _generation_json(generation, spell, spells_prompt=_is_shown(recorder, generation))
            for generation in recorder.generations
        ],
        "answer_generation": recorder.answer_index,
        "attribution": recorder.attribution,
        "attention": None,
        "missing": _missing(recorder),
    }
    return redact(trace) if recorder.is_redacted else trace


def _engine_json(recorder: TraceRecorder) -> dict[str, Any] | None:
    if recorder.engine is None:
        return None
    return {
        "model": recorder.engine.model,
        "revision": recorder.engine.revision,
        "version": recorder.engine.version,
        "max_model_len": recorder.engine.max_model_len,
    }


def _missing(recorder: TraceRecorder) -> list[str]:
    """What a reader may look for in vain, and why."""
    engine, is_full = recorder.engine, recorder.is_full
    if engine is None:
        return []
    missing = {
        "Texts and tokens: this is a light trace; ask with `trace` true for a full one.": not is_full,
        "Tokens, log-probabilities and entropy: the endpoint does not report them.": (
            is_full and not engine.reports_logprobs
        ),
        "Token ids of what was written: the endpoint names tokens by their text.": (
            is_full and engine.reports_logprobs and not engine.reports_token_ids
        ),
        "Tokens: the engine gave none for what was asked.": (
            is_full
            and engine.reports_logprobs
            and any(g.usage.completion_tokens and not g.tokens for g in recorder.generations)
        ),
        "Cached marks: the endpoint does not report cached tokens.": not engine.reports_cached_tokens,
        "Engine timings: the endpoint tells none, these are measured from outside.": (
            not engine.reports_timings
        ),
        "Engine load: the endpoint has not told it in time.": all(
            g.load is None for g in recorder.generations
        ),
    }
    return [reason for reason, applies in missing.items() if applies]


def _is_shown(recorder: TraceRecorder, generation: GenerationRecorder) -> bool:
    """Whether a full trace spells its prompt: of several samples of one prompt, the answer's does."""
    answer = recorder.generations[recorder.answer_index or 0]
    return generation is answer or generation.prompt is not answer.prompt


def _generation_json(
    recorder: GenerationRecorder, spell: _TokensJson | None, *, spells_prompt: bool
) -> dict[str, Any]:
    request, load = recorder.request, recorder.load
    text = "".join(recorder.texts)
    tokens = spell.written(recorder.tokens, text) if spell else []
    return {
        "purpose": recorder.purpose,
        "engine_name": recorder.engine_name,
        "prompt": _prompt_json(recorder, spell if spells_prompt else None),
        "sampling": _sampling_json(request.sampling),
        "constraint": None if request.constraint is None else asdict(request.constraint),
        "priority": request.priority,
        "finish_reason": recorder.finish_reason,
        "stop_reason": recorder.stop_reason,
        "usage": asdict(recorder.usage),
        "timings": None if recorder.timings is None else _rounded(asdict(recorder.timings)),
        "engine_load": None if load is None else _load_json(load),
        "text": text if spell else None,
        "tokens": tokens,
        "certainty": certainty_json(tokens),
    }


def _prompt_json(recorder: GenerationRecorder, spell: _TokensJson | None) -> dict[str, Any]:
    prompt, load, cached_tokens = recorder.prompt, recorder.load, recorder.usage.cached_tokens
    placed = mark_segments(prompt.segments, cached_tokens=cached_tokens)
    return {
        "num_tokens": prompt.num_tokens,
        "cached_tokens": cached_tokens,
        "block_size": None if load is None else load.block_size,
        "segments": [_segment_json(one) | (spell.segment(one.segment) if spell else {}) for one in placed],
        "cut": {
            "passages": [asdict(dropped) | {"reason": dropped.reason} for dropped in prompt.dropped],
            "num_turns": prompt.num_dropped_turns,
        },
    }


def _segment_json(placed: PlacedSegment) -> dict[str, Any]:
    return {
        "kind": placed.segment.kind,
        "source_ids": list(placed.segment.source_ids),
        "start": placed.start,
        "end": placed.end,
        "cached": placed.mark,
        "cached_tokens": placed.cached_tokens,
    }


class _TokensJson:
    """Spells tokens: the part of a full trace that takes a tokenizer."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer

    def segment(self, segment: Segment) -> dict[str, Any]:
        """A segment's text and tokens, and whether its text gives these tokens again."""
        text = self._tokenizer.decode(segment.token_ids)
        places = place_tokens(self._tokenizer.token_bytes(segment.token_ids))
        # A frame has special tokens, which text never becomes, whoever types it.
        is_text = segment.kind != "frame"
        return {
            "text": text,
            "token_ids": list(segment.token_ids),
            "token_starts": [place.start for place in places],
            "num_split_tokens": sum(not place.is_whole for place in places),
            "round_trip": self._tokenizer.encode(text) == list(segment.token_ids) if is_text else None,
        }

    def written(self, tokens: Sequence[GeneratedToken], text: str) -> list[dict[str, Any]]:
        """Tokens that wrote `text`, each with its place there."""
        pieces = self._pieces(tokens)
        places = place_in_text(pieces, text) or place_tokens(pieces)
        return [
            self._token(token, piece, place)
            for token, piece, place in zip(tokens, pieces, places, strict=True)
        ]

    def _pieces(self, tokens: Sequence[GeneratedToken]) -> list[bytes]:
        ids = [token.token_id for token in tokens if token.token_id is not None]
        if len(ids) == len(tokens):
            return self._tokenizer.token_bytes(ids)
        return [token.text.encode() for token in tokens]

    def _token(self, token: GeneratedToken, piece: bytes, place: TokenPlace) -> dict[str, Any]:
        alternatives = token.alternatives
        known = uncertainty(
            [choice.logprob for choice in alternatives],
            num_top=NUM_ALTERNATIVES,
            vocabulary_size=self._tokenizer.vocabulary_size,
        )
        return {
            "token_id": token.token_id,
            "text": self._shown(token.token_id, piece),
            "start": place.start,
            "end": place.end,
            "is_whole": place.is_whole,
            "logprob": _round(token.logprob),
            "rank": rank_of(token),
            "entropy": _round(known.entropy) if alternatives else None,
            "entropy_max": _round(known.entropy_max) if alternatives else None,
            "rest": _round(known.rest) if alternatives else None,
            "alternatives": [self._choice(choice) for choice in alternatives],
        }

    def _choice(self, choice: TokenChoice) -> dict[str, Any]:
        if choice.token_id is None:
            piece = choice.text.encode()
        else:
            (piece,) = self._tokenizer.token_bytes([choice.token_id])
        text = self._shown(choice.token_id, piece)
        return {"token_id": choice.token_id, "text": text, "logprob": _round(choice.logprob)}

    def _shown(self, token_id: int | None, piece: bytes) -> str:
        """What a token writes; a special one's name; bytes that are no whole character as `<0xE4>`."""
        if not piece and token_id is not None:
            return self._tokenizer.decode([token_id])
        try:
            return piece.decode("utf-8")
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in piece)


def _retrieval_json(search: SearchResult) -> dict[str, Any]:
    """Each passage's scores: dense (inner product), lexical (BM25), where it stood after fusion, and
    the score it was ranked by in the end."""
    fused_ranks = {chunk.chunk_id: chunk.fused_rank for chunk in search.ranking}
    passages = []
    for rank, passage in enumerate(search.passages, 1):
        fused = [fused_ranks[c] for c in passage.chunk_ids if fused_ranks.get(c)]
        passages.append(
            {
                "id": passage_id(passage),
                "document_id": passage.document_id,
                "rank": rank,
                "score": _round(passage.score),
                "fused_rank": min(fused, default=None),
                "dense_score": _round(passage.dense_score),
                "dense_rank": passage.dense_rank,
                "lexical_score": _round(passage.lexical_score),
                "lexical_rank": passage.lexical_rank,
                "num_tokens": passage.num_generator_tokens,
            }
        )
    return {
        "is_reranked": bool(search.rerank_uses),
        "coverage": _round(search.coverage),
        "num_duplicates": search.num_duplicates,
        "seconds": _rounded(search.seconds),
        "passages": passages,
    }


def certainty_json(tokens: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Means over the tokens; None where nothing is known of them."""
    logprobs = [token["logprob"] for token in tokens if token["logprob"] is not None]
    entropies = [token["entropy"] for token in tokens if token["entropy"] is not None]
    if not logprobs or not entropies:
        return None
    mean_logprob = sum(logprobs) / len(logprobs)
    return {
        "mean_logprob": _round(mean_logprob),
        "perplexity": _round(math.exp(min(700.0, -mean_logprob))),
        "mean_entropy": _round(sum(entropies) / len(entropies)),
        "max_entropy": _round(max(entropies)),
        "num_tokens": len(tokens),
    }


def _sampling_json(sampling: SamplingParameters) -> dict[str, Any]:
    """All controls as they were applied, the ones that are off too."""
    values = asdict(sampling)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _load_json(load: EngineLoad) -> dict[str, Any]:
    age = time.monotonic() - load.measured_at
    return {
        "kv_cache_usage": _round(load.kv_cache_usage),
        "kv_cache_tokens": load.kv_cache_tokens,
        "num_running": load.num_running,
        "num_waiting": load.num_waiting,
        "num_preemptions": load.num_preemptions,
        "age_seconds": round(age, 3),
    }


def _round(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return None if value is None or not math.isfinite(value) else round(float(value), 6)


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in values.items()}
