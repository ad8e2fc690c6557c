"""The small model: short, greedy, constrained tasks beside the generation of answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from core.errors import LongleafError
from core.precedence import current_precedence
from core.usage import ModelUse, TokenUsage
from inference.protocols import (
    ChatTokenizer,
    GenerationRequest,
    Generator,
    OutputConstraint,
    SamplingParameters,
)


@dataclass(frozen=True, slots=True)
class SmallModelReply:
    """`text` is complete if `finish_reason` is `stop`; under a schema it is JSON then."""

    text: str
    finish_reason: str
    use: ModelUse


class SmallModel(Protocol):
    """A language model for condensing questions, choosing sentences and keeping summaries."""

    @property
    def tokenizer(self) -> ChatTokenizer: ...

    @property
    def max_prompt_tokens(self) -> int:
        """Most tokens of `instructions` and `text` together that leave room for 512 of an answer."""
        ...

    def complete(
        self,
        *,
        instructions: str,
        text: str,
        max_tokens: int,
        json_schema: Mapping[str, Any] | None = None,
        cache_salt: str = "",
    ) -> SmallModelReply:
        """A greedy reply of at most `max_tokens` to `text` under the system prompt `instructions`.

        Args:
            json_schema: the reply is JSON that fits it, enforced token by token by the engine.
            cache_salt: the tenant's, so that prefix caches stay apart.

        Raises:
            EngineUnavailable, EngineOverloaded: as `Generator.stream`.
            EngineIncapable: a schema was given and the engine cannot be held to it.
            TooLong: `instructions` and `text` exceed `max_prompt_tokens`.

        What was consumed before an error is in its `uses`.
        """
        ...


_ANSWER_ROOM = 512
_FRAME_ROOM = 64  # the chat template's own tokens, at most


class ChatSmallModel:
    """`SmallModel` over a `Generator`: the answers' own engine, or a smaller one beside it."""

    def __init__(self, generator: Generator, tokenizer: ChatTokenizer) -> None:
        self._generator = generator
        self._tokenizer = tokenizer

    @property
    def tokenizer(self) -> ChatTokenizer:
        return self._tokenizer

    @property
    def max_prompt_tokens(self) -> int:
        return self._generator.info().max_model_len - _ANSWER_ROOM - _FRAME_ROOM

    def complete(
        self,
        *,
        instructions: str,
        text: str,
        max_tokens: int,
        json_schema: Mapping[str, Any] | None = None,
        cache_salt: str = "",
    ) -> SmallModelReply:
        frame = self._tokenizer.chat_frame(has_system=True)
        encode = self._tokenizer.encode
        prompt = (*frame.head, *encode(instructions), *frame.middle, *encode(text), *frame.tail)
        request = GenerationRequest(
            prompt_token_ids=prompt,
            sampling=SamplingParameters(max_tokens=max_tokens),
            cache_salt=cache_salt,
            constraint=None if json_schema is None else OutputConstraint("json", json_schema),
        )
        current_precedence().give_way()
        started = time.perf_counter()
        pieces, finish_reason, usage = [], "", TokenUsage()
        try:
            with self._generator.stream(request) as deltas:
                for delta in deltas:
                    pieces.append(delta.text)
                    finish_reason = delta.finish_reason or finish_reason
                    usage = delta.usage
        except LongleafError as error:
            if usage != TokenUsage():
                error.uses += (self._use(usage, started),)
            raise
        return SmallModelReply("".join(pieces).strip(), finish_reason, self._use(usage, started))

    def _use(self, usage: TokenUsage, started: float) -> ModelUse:
        info = self._generator.info()
        return ModelUse(info.model, info.revision, usage=usage, seconds=time.perf_counter() - started)
