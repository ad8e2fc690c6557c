"""Takes down what one attempt at an answer does; what costs time is left to `trace_json.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from core.usage import TokenUsage
from generation.prompt import Prompt
from generation.prompt_passages import passage_id
from inference.engine_load import EngineLoad, EngineLoadSampler
from inference.protocols import (
    ChatTokenizer,
    EngineInfo,
    EngineTimings,
    GeneratedToken,
    GenerationDelta,
    GenerationRequest,
)
from retrieval.extraction import ExtractedSentence
from retrieval.passages import Passage
from retrieval.pipeline import SearchResult

NUM_ALTERNATIVES = 5


@dataclass(slots=True)
class GenerationRecorder:
    """One request to the engine. Feed it every delta, in order."""

    prompt: Prompt
    request: GenerationRequest
    purpose: str
    is_full: bool
    load_sampler: EngineLoadSampler | None
    usage: TokenUsage = field(default_factory=TokenUsage)
    timings: EngineTimings | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    load: EngineLoad | None = None
    texts: list[str] = field(default_factory=list)
    tokens: list[GeneratedToken] = field(default_factory=list)
    has_begun: bool = False
    engine_name: str = ""

    def add(self, delta: GenerationDelta) -> None:
        if not self.has_begun:
            self.has_begun = True
            # The prompt's own KV is in place now, so the usage seen from here on includes it.
            if self.load_sampler is not None:
                self.load_sampler.request()
        self.usage = delta.usage
        self.engine_name = delta.engine or self.engine_name
        self.timings = delta.timings or self.timings
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.stop_reason = delta.stop_reason or self.stop_reason
        if self.is_full:
            self.texts.append(delta.text)
            self.tokens.extend(delta.tokens)
        if delta.finish_reason is not None and self.load_sampler is not None:
            self.load = self.load_sampler.latest()


@dataclass(slots=True)
class TraceRecorder:
    """One attempt's trace. Light: figures and places. Full: texts and tokens too.

    Whoever generates calls `begin` for each request to the engine, and feeds what it returns. The
    answer is the last one's, unless `answer_generation` says which.
    """

    attempt: int = 1
    is_kept: bool = True
    is_full: bool = False
    is_redacted: bool = False
    tokenizer: ChatTokenizer | None = None
    load_sampler: EngineLoadSampler | None = None
    engine: EngineInfo | None = None
    generations: list[GenerationRecorder] = field(default_factory=list)
    answer_generation: int | None = None
    search: SearchResult | None = None
    sentences: list[dict[str, Any]] = field(default_factory=list)
    attribution: dict[str, Any] | None = None
    error_code: str | None = None

    def __post_init__(self) -> None:
        assert self.tokenizer is not None or not self.is_full  # tokens are spelled by one

    @property
    def num_logprobs(self) -> int:
        """Alternatives to ask the engine for."""
        return NUM_ALTERNATIVES if self.is_full else 0

    def begin(
        self, prompt: Prompt, request: GenerationRequest, *, engine: EngineInfo, purpose: str = "answer"
    ) -> GenerationRecorder:
        """For one request to the engine, which may be sampled, repaired or asked for again."""
        self.engine = engine
        recorder = GenerationRecorder(prompt, request, purpose, self.is_full, self.load_sampler)
        self.generations.append(recorder)
        return recorder

    def choose_last(self, *, purpose: str) -> None:
        """Whatever is generated from now on, what was last is the answer, unless this is called again."""
        if self.generations:
            self.answer_generation = len(self.generations) - 1
            self.generations[-1].purpose = purpose

    @property
    def answer_index(self) -> int | None:
        """Which of `generations` wrote the answer; None where none did."""
        if not self.generations:
            return None
        return len(self.generations) - 1 if self.answer_generation is None else self.answer_generation

    @property
    def written(self) -> str | None:
        """What the model wrote for the answer; None in a light trace, and where it wrote nothing."""
        index = self.answer_index
        return "".join(self.generations[index].texts) if self.is_full and index is not None else None

    def searched(self, search: SearchResult) -> None:
        self.search = search

    def extracted(self, sentences: Sequence[ExtractedSentence], passages: Sequence[Passage]) -> None:
        """Sentences that were chosen from passages, with the scores they were chosen by."""
        self.sentences = [
            {
                "passage": passage_id(passages[sentence.passage_index]),
                "start": sentence.start,
                "end": sentence.end,
                "score": round(float(sentence.score), 6),
                "overlap": round(float(sentence.overlap), 6),
                **({"text": sentence.text} if self.is_full else {}),
            }
            for sentence in sentences
        ]
