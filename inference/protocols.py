"""What the rest of the house knows of models. Implementations are built in `bootstrap/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from core.usage import TokenUsage
from inference.kv_store.kept_text import KeptText


class Tokenizer(Protocol):
    """A model's own tokenizer; special tokens are never added unless a method says so."""

    def encode(self, text: str) -> list[int]:
        """Token ids of `text` alone."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str: ...

    def count(self, text: str) -> int:
        """`len(encode(text))`."""
        ...

    def token_starts(self, text: str) -> list[int]:
        """For each token of `text`, in order, the character offset where it starts.

        One pass over a long text that lets callers count the tokens of any slice by bisection.
        """
        ...


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors in the order of the texts given."""

    vectors: NDArray[np.float32]  # (num_texts, dimension), L2-normalized
    num_tokens: tuple[int, ...]  # per text, prompt and special tokens included: what was computed
    seconds: float


class Embedder(Protocol):
    """Turns texts into vectors whose inner product is similarity.

    Queries and passages may be prefixed differently (`query: `, `passage: `); callers never add
    prefixes themselves. Texts longer than `max_tokens` are cut by the model.
    """

    @property
    def name(self) -> str:
        """Registry name; the ledger's `model`."""
        ...

    @property
    def revision(self) -> str:
        """Changes whenever the vectors would: weights, prompts, quantization."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """Longest passage in tokens of `tokenizer`, its prompt and special tokens deducted."""
        ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    def embed_passages(self, texts: Sequence[str]) -> Embeddings: ...

    def embed_queries(self, texts: Sequence[str]) -> Embeddings: ...


@dataclass(frozen=True, slots=True)
class RerankScores:
    """One score a passage, in the order given; higher answers the question better."""

    scores: NDArray[np.float32]  # (num_passages,)
    num_tokens: int  # computed, for the ledger
    seconds: float


class Reranker(Protocol):
    """Reads question and passage together, which an index cannot. Safe to share between threads."""

    @property
    def name(self) -> str:
        """Registry name; the ledger's `model`."""
        ...

    @property
    def revision(self) -> str: ...

    def rerank(self, question: str, passages: Sequence[str]) -> RerankScores: ...


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """How the next token is picked. `temperature` 0 is greedy.

    A control at its default here is off, and is not sent: any endpoint will do. One that is on and
    that the endpoint cannot be held to is refused with `EngineIncapable`, never ignored.
    `no_repeat_ngram_size` n: no n tokens come twice in the answer. `logit_bias` is by token id, from
    −100 to 100. `beam_width` 2 or more searches that many beams, greedy; `length_penalty` above 1
    makes it like longer answers.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    min_tokens: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[str, ...] = ()
    beam_width: int = 1
    length_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class OutputConstraint:
    """What the text must be, enforced token by token by the engine, if it is not cut.

    `kind` and `value`: `json` a JSON schema, `regex` an expression that all of it matches, `choice`
    a list of texts of which it is one, `grammar` an EBNF grammar.
    """

    kind: Literal["json", "regex", "choice", "grammar"]
    value: Mapping[str, Any] | str | Sequence[str]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt in token ids.

    `cache_salt` keeps prefix caches of different tenants apart. Lower `priority` runs first. A
    `constraint` is refused with `EngineIncapable` where the engine cannot be held to it. With
    `num_logprobs` deltas carry their tokens, each with so many alternatives, from an engine that
    can say them (`EngineInfo.reports_logprobs`); from others they carry none.
    What is computed of the `kept` text outlives a restart of an engine that can do that, and no other.
    """

    prompt_token_ids: Sequence[int]
    sampling: SamplingParameters
    cache_salt: str = ""
    priority: int = 0
    request_id: str = ""
    constraint: OutputConstraint | None = None
    num_logprobs: int = 0
    kept: KeptText | None = None


@dataclass(frozen=True, slots=True)
class EngineTimings:
    """Seconds inside the engine. `ttft_seconds` counts from the client's send to its first token."""

    queue_seconds: float = 0.0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    ttft_seconds: float = 0.0
    total_seconds: float = 0.0

    def then(self, after: EngineTimings) -> EngineTimings:
        """Of this request and one after it; to the first token of the first."""
        return EngineTimings(
            self.queue_seconds + after.queue_seconds,
            self.prefill_seconds + after.prefill_seconds,
            self.decode_seconds + after.decode_seconds,
            self.ttft_seconds or after.ttft_seconds,
            self.total_seconds + after.total_seconds,
        )


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A token that could come next and its natural log-probability, before any sampling control.

    `token_id` is None where the endpoint names tokens by `text` only; `text` is empty where by id.
    """

    token_id: int | None
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """A token that was picked, and the most probable ones at its place, best first, itself among
    them if it is one of these."""

    token_id: int | None
    text: str
    logprob: float | None
    alternatives: tuple[TokenChoice, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationDelta:
    """A piece of a streamed answer. Of several engines the first delta names the one that serves.

    `usage` is cumulative and present on every delta where the engine can say it; on the last one
    `finish_reason` (`stop`, `length`, `repetition`, `abort`) and `timings` are set, and
    `stop_reason`: the stop text or the token id that ended it, where the engine says so. `tokens`
    lie ahead of `text` while a character is incomplete or a stop text may be coming.
    """

    text: str
    usage: TokenUsage
    finish_reason: str | None = None
    timings: EngineTimings | None = None
    tokens: tuple[GeneratedToken, ...] = ()
    stop_reason: str | int | None = None
    engine: str = ""


BASE_CONTROLS = frozenset({"max_tokens", "temperature", "top_p", "stop"})
"""Sampling controls that are part of the protocol: no endpoint lacks them."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an endpoint is and can do, found out by asking it.

    `controls` names the fields of `SamplingParameters` that it can be held to. `speculates`: it
    guesses tokens ahead, to which some controls are lost.
    """

    model: str
    revision: str
    max_model_len: int
    accepts_token_ids: bool
    reports_cached_tokens: bool
    reports_timings: bool
    accepts_cache_salt: bool
    accepts_priority: bool
    stops_repetition: bool
    constrains_output: bool = False
    controls: frozenset[str] = BASE_CONTROLS
    speculates: bool = False
    reports_logprobs: bool = False
    reports_token_ids: bool = False
    keeps_context: bool = False
    version: str = ""
    notes: tuple[str, ...] = field(default=())


class Generator(Protocol):
    """A generation engine."""

    def info(self) -> EngineInfo:
        """Asked once, then remembered.

        Raises:
            EngineUnavailable: the endpoint does not answer.
            EngineIncapable: it cannot do what Longleaf needs (token-id prompts, streaming).
        """
        ...

    def stream(self, request: GenerationRequest) -> AbstractContextManager[Iterator[GenerationDelta]]:
        """Generate. Leaving the context early aborts the request in the engine.

        Raises:
            EngineUnavailable: no connection, silence, or the engine died; retried inside only
                while nothing was generated. `context["usage"]` has what is known of the burn.
            EngineOverloaded: the engine's queue is full (503).
            TooLong: prompt and answer exceed the window.
        """
        ...

    def is_healthy(self) -> bool: ...


class ChatTokenizer(Tokenizer, Protocol):
    """The generator's tokenizer, with its chat template taken apart at the contents."""

    @property
    def vocabulary_size(self) -> int: ...

    def token_bytes(self, token_ids: Sequence[int]) -> list[bytes]:
        """What each token writes, in UTF-8: a character may be split over several, and special
        tokens write nothing."""
        ...

    @property
    def revision(self) -> str: ...

    def chat_frame(self, *, has_system: bool) -> ChatFrame:
        """The template's fixed token ids around the contents."""
        ...


@dataclass(frozen=True, slots=True)
class ChatFrame:
    """`head + system + middle + user + tail` is a one-turn chat prompt in the model's template."""

    head: tuple[int, ...]
    middle: tuple[int, ...]
    tail: tuple[int, ...]
