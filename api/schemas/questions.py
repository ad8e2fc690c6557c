from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api.schemas.base import Body, FreeText
from generation.questions import AnswerMode, QuestionParameters

MAX_WAIT_SECONDS = 300.0

_SEED_BOUND = 2**63
_StopText = Annotated[str, Field(min_length=1, max_length=200)]


class Question(Body):
    """A question about a collection. What is left out takes the server's default."""

    question: FreeText = Field(description="In any language; answered from the collection's documents only.")
    mode: AnswerMode = Field(
        "auto",
        description="`extractive`: the sentences that answer, verbatim. `abstractive`: the model writes. "
        "`auto`: as fits the model.",
    )
    num_passages: int | None = Field(None, ge=1, le=50, description="Most passages to answer from.")
    max_tokens: int | None = Field(None, ge=1, le=100_000, description="Most tokens to write.")
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False, description="0: greedy.")
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False, description="Nucleus sampling.")
    seed: int | None = Field(None, ge=-_SEED_BOUND, lt=_SEED_BOUND, description="Makes sampling repeatable.")
    stop: list[_StopText] = Field(default_factory=list, max_length=16, description="Texts that end it.")
    stream: bool = Field(False, description="Answer with server-sent events.")
    wait_seconds: float = Field(
        60.0,
        ge=0,
        le=MAX_WAIT_SECONDS,
        allow_inf_nan=False,
        description="How long to wait for the answer before giving 202; 0: do not wait.",
    )

    def parameters(self) -> QuestionParameters:
        return QuestionParameters(
            mode=self.mode,
            num_passages=self.num_passages,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            stop=tuple(self.stop),
        )
