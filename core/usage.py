"""What a call to a model consumed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Token counts as the engine reports them; `prompt_tokens` includes `cached_tokens`.

    `engine_seconds` is the call's share of the engine's time, as far as it was measured.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    engine_seconds: float = field(default=0.0, compare=False)

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.engine_seconds + other.engine_seconds,
        )

    @property
    def uncached_tokens(self) -> int:
        """Prompt tokens the engine had to compute."""
        return self.prompt_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Work a model did for a step of a question.

    Encoders (embedder, reranker) have `num_tokens`, generative models `usage`; the other is zero.
    `seconds` is the time the model took.
    """

    model: str
    model_revision: str
    num_tokens: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    seconds: float = 0.0

    def __add__(self, other: ModelUse) -> ModelUse:
        """Both uses of one model."""
        return ModelUse(
            self.model,
            self.model_revision,
            self.num_tokens + other.num_tokens,
            self.usage + other.usage,
            self.seconds + other.seconds,
        )
