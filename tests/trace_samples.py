"""A full trace of a small Chinese answer, as the API gives it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

PASSAGE = "doc_1:0-30"

_TOKENS = [
    ("<0xE5><0x85>", 0, 1, False, -0.2, 0.4),
    ("<0xAB>", 0, 1, False, -0.1, 0.3),
    ("十", 1, 2, True, -0.3, 0.5),
    ("二斤。", 2, 5, True, -0.1, 0.2),
]

_TRACE: dict[str, Any] = {
    "answer_id": "ans_1",
    "version": 1,
    "detail": "full",
    "redacted_at": None,
    "attempt": 1,
    "error_code": None,
    "recorded_at": "2026-12-01T00:00:00+00:00",
    "engine": {"model": "m", "revision": "r", "version": "0.32.0", "max_model_len": 8192},
    "retrieval": {
        "is_reranked": True,
        "coverage": 1.0,
        "num_duplicates": 0,
        "seconds": {"dense": 0.001},
        "passages": [
            {
                "id": PASSAGE,
                "document_id": "doc_1",
                "rank": 1,
                "score": 3.5,
                "fused_rank": 2,
                "dense_score": 0.9,
                "dense_rank": 1,
                "lexical_score": 7.1,
                "lexical_rank": 1,
                "num_tokens": 40,
            }
        ],
    },
    "sentences": [],
    "generations": [
        {
            "purpose": "answer",
            "prompt": {
                "num_tokens": 60,
                "cached_tokens": 32,
                "block_size": 32,
                "segments": [
                    {
                        "kind": "frame",
                        "source_ids": [],
                        "start": 0,
                        "end": 4,
                        "cached": "cached",
                        "cached_tokens": 4,
                        "text": "<|im_start|>",
                        "token_ids": [1, 2, 3, 4],
                        "token_starts": [0, 12, 12, 12],
                        "num_split_tokens": 0,
                        "round_trip": None,
                    },
                    {
                        "kind": "passage",
                        "source_ids": [PASSAGE],
                        "start": 4,
                        "end": 60,
                        "cached": "partly",
                        "cached_tokens": 28,
                        "text": "关云长造青龙偃月刀，重八十二斤。<script>alert(1)</script>",
                        "token_ids": list(range(56)),
                        "token_starts": list(range(56)),
                        "num_split_tokens": 10,
                        "round_trip": True,
                    },
                ],
                "cut": {"passages": [], "num_turns": 0},
            },
            "sampling": {
                "max_tokens": 100,
                "temperature": 0.2,
                "top_p": 1.0,
                "top_k": 0,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "no_repeat_ngram_size": 0,
                "seed": None,
                "stop": [],
                "bad_words": [],
                "logit_bias": [],
            },
            "constraint": None,
            "priority": 0,
            "finish_reason": "stop",
            "stop_reason": None,
            "usage": {"prompt_tokens": 60, "cached_tokens": 32, "completion_tokens": 12},
            "timings": {
                "queue_seconds": 0.0,
                "prefill_seconds": 0.1,
                "decode_seconds": 0.4,
                "ttft_seconds": 0.1,
                "total_seconds": 0.5,
            },
            "engine_load": {
                "kv_cache_usage": 0.25,
                "kv_cache_tokens": 23296,
                "num_running": 1,
                "num_waiting": 0,
                "num_preemptions": 0,
                "age_seconds": 0.3,
            },
            "text": "八十二斤。",
            "tokens": [
                {
                    "token_id": 100 + position,
                    "text": text,
                    "start": start,
                    "end": end,
                    "is_whole": is_whole,
                    "logprob": logprob,
                    "rank": 1,
                    "entropy": entropy,
                    "entropy_max": entropy + 0.5,
                    "rest": 0.05,
                    "alternatives": [
                        {"token_id": 100 + position, "text": text, "logprob": logprob},
                        {"token_id": 7, "text": "<b>", "logprob": -3.0},
                    ],
                }
                for position, (text, start, end, is_whole, logprob, entropy) in enumerate(_TOKENS)
            ],
            "certainty": {
                "mean_logprob": -0.175,
                "perplexity": 1.19,
                "mean_entropy": 0.35,
                "max_entropy": 0.5,
                "num_tokens": 4,
            },
        }
    ],
    "answer_generation": 0,
    "attribution": {
        "passages": [PASSAGE],
        "statements": [
            {
                "start": 0,
                "end": 5,
                "is_supported": True,
                "written_start": 0,
                "written_end": 5,
                "cited": [[1]],
                "coverage": [1.0],
            }
        ],
    },
    "attention": None,
    "missing": [],
    "earlier_attempts": [],
    "steps": {},
}

ATTENTION: dict[str, Any] = {
    "rule": "mean over all layers and heads",
    "num_tokens": 4,
    "is_cut": False,
    "seconds": 1.0,
    "by_token": [[0.6, 0.3]] * 4,
    "own": [0.1] * 4,
    "passages": [PASSAGE],
    "sentences": [{"start": 0, "end": 5, "num_tokens": 4, "weights": [0.3], "shares": [1.0]}],
}


def full_trace(**changes: Any) -> dict[str, Any]:
    """The trace, with fields of the answer's generation, its prompt or sampling, or its own changed."""
    trace = deepcopy(_TRACE)
    generation = trace["generations"][0]
    for name, value in changes.items():
        place = next(
            part for part in (generation, generation["prompt"], generation["sampling"], trace) if name in part
        )
        place[name] = value
    return trace


def light_trace() -> dict[str, Any]:
    """The same without texts and tokens."""
    trace = full_trace(tokens=[], text=None, certainty=None) | {"detail": "light"}
    for segment in trace["generations"][0]["prompt"]["segments"]:
        for name in ("text", "token_ids", "token_starts", "num_split_tokens", "round_trip"):
            del segment[name]
    return trace
