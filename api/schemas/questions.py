from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from api.schemas.base import Body, FreeText
from api.schemas.formats import AnswerFormat
from api.schemas.sampling import SamplingOptions
from core.ids import DocumentId
from generation.questions import (
    AnswerMode,
    Condensing,
    ContextChoice,
    Expansion,
    ExtractionMethod,
    QuestionParameters,
    Unsupported,
    Validation,
)
from generation.sampling import contradictions, given_controls
from retrieval.filters import DocumentFilter

MAX_WAIT_SECONDS = 300.0
MAX_DEADLINE_SECONDS = 7 * 24 * 3600.0


def _storable(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("it is before the year 1 or after 9999 in UTC") from None


_Moment = Annotated[AwareDatetime, AfterValidator(_storable)]


class Filter(Body):
    """Only documents that meet every condition given. None that does: the question is refused."""

    document_ids: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=1000, description="One of these."
    )
    tags: list[Annotated[FreeText, Field(min_length=1, max_length=64)]] = Field(
        default_factory=list, max_length=32, description="That has one of these."
    )
    uploaded_from: _Moment | None = Field(None, description="First uploaded then or later.")
    uploaded_before: _Moment | None = Field(None, description="First uploaded before then.")

    def as_filter(self) -> DocumentFilter:
        return DocumentFilter(
            document_ids=tuple(map(DocumentId, self.document_ids)),
            tags=tuple(self.tags),
            uploaded_from=self.uploaded_from,
            uploaded_before=self.uploaded_before,
        )


class QuestionOptions(SamplingOptions):
    """How a question is answered. What is left out takes the server's default."""

    mode: AnswerMode = Field(
        "auto",
        description="`extractive`: the sentences that answer, verbatim. `abstractive`: the model writes. "
        "`quoted`: it quotes, then writes. `auto`: as fits the model.",
    )
    context: ContextChoice = Field(
        "auto",
        description="What a written answer is made from. `passages`: what was found. `whole`: all of the one "
        "document the question is about. `auto`: whole once enough questions are asked about it.",
    )
    filter: Filter = Field(
        default_factory=lambda: Filter.model_validate({}), description="Which documents to answer from."
    )
    rerank: bool | None = Field(None, description="Read the best candidates together with the question.")
    extraction: ExtractionMethod = Field(
        "auto",
        description="How the sentences that answer are kept of passages. `rule`: without a model. "
        "`model`: the small model chooses them.",
    )
    max_context_tokens: int | None = Field(
        None, ge=64, le=1_000_000, description="Room for passages, in tokens of the model that answers."
    )
    expansion: Expansion = Field(
        "none",
        description="Further queries by the small model. `multi_query`: the question in other words. "
        "`decompose`: its parts. What that cost is a line of the ledger.",
    )
    condensing: Condensing = Field(
        "auto", description="In a conversation: how the question is made to stand alone."
    )
    unsupported: Unsupported = Field(
        "flag", description="Sentences that no passage supports: flagged in `statements`, or removed."
    )
    prefix_planner: bool | None = Field(
        None,
        description="Order passages so that prompts share what the engine has computed, and put documents "
        "that are asked about often in front. `false`: as found.",
    )
    num_passages: int | None = Field(None, ge=1, le=50, description="Most passages to answer from.")
    trace: bool | None = Field(
        None,
        description="Keep texts, tokens and their log-probabilities in the answer's trace; null: as the "
        "server is set. Figures are kept in any case, unless traces are off.",
    )
    format: AnswerFormat | None = Field(
        None, description="The form of the answer, which is then written (`abstractive`) and given as it is."
    )
    must_include: list[FreeText] = Field(
        default_factory=list, description="Texts that the answer must hold; so it is written too."
    )
    validation: Validation = Field(
        "auto",
        description="Who checks an answer of a form against the passages: rules (of numbers and dates), the "
        "small `model` besides, or nobody. `auto`: rules.",
    )
    max_repairs: int | None = Field(
        None, ge=0, le=5, description="How often an answer of a form is written again if it fails a check."
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        choice = self.sampling_choice()
        wrong = list(contradictions(choice))
        if self.mode == "extractive" and (given := given_controls(choice)):
            wrong.append(
                f"mode is `extractive`, which writes nothing, so {', '.join(given)} can have no effect: "
                "leave out the one or the other"
            )
        if self.format is not None or self.must_include:
            of_a_form = "an answer with `format` or `must_include` is written once and token by token"
            several = {"n": choice.n or 1, "beam_width": choice.beam_width or 1}
            wrong += [f"{name} is {value}, but {of_a_form}" for name, value in several.items() if value > 1]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def parameters(self) -> QuestionParameters:
        return QuestionParameters(
            mode=self.mode,
            context=self.context,
            filter=self.filter.as_filter(),
            rerank=self.rerank,
            extraction=self.extraction,
            max_context_tokens=self.max_context_tokens,
            expansion=self.expansion,
            condensing=self.condensing,
            unsupported=self.unsupported,
            prefix_planner=self.prefix_planner,
            num_passages=self.num_passages,
            trace=self.trace,
            **self.sampling_choice().as_fields(),
            format=None if self.format is None else self.format.as_format(),
            must_include=tuple(self.must_include),
            validation=self.validation,
            max_repairs=self.max_repairs,
        )


class Question(QuestionOptions):
    """A question about a collection."""

    question: FreeText = Field(description="In any language; answered from the collection's documents only.")
    stream: bool = Field(False, description="Answer with server-sent events.")
    deadline_seconds: float | None = Field(
        None,
        gt=0,
        le=MAX_DEADLINE_SECONDS,
        allow_inf_nan=False,
        description="Fails with `deadline_exceeded` if it is not answered by then; null: it may take its time.",
    )
    on_disconnect: Literal["finish", "cancel"] = Field(
        "finish",
        description="What becomes of the question when who waits for it, or follows its stream, goes away: "
        "it is answered all the same, or cancelled.",
    )
    wait_seconds: float = Field(
        60.0,
        ge=0,
        le=MAX_WAIT_SECONDS,
        allow_inf_nan=False,
        description="How long to wait for the answer before giving 202; 0: do not wait.",
    )
