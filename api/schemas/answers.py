from __future__ import annotations

import json
from collections.abc import Set
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from accounting.money import format_amount
from api.schemas.base import Failure, View, failure
from api.schemas.jobs import JobStatus
from storage import models


class PageBox(View):
    """A rectangle on a page, in points (1/72 inch) from the top left of the page as displayed."""

    page: int = Field(description="From 1.")
    page_width: float = Field(description="The page's width.")
    page_height: float = Field(description="The page's height.")
    x0: float = Field(description="Left side.")
    y0: float = Field(description="Upper side.")
    x1: float = Field(description="Right side.")
    y1: float = Field(description="Lower side.")


class Citation(View):
    """A span of a document that a sentence of the answer rests on, found verbatim in it.

    It stays with the answer when its document is deleted, quote and all, and says `withdrawn`.
    """

    number: int = Field(description="The `[n]` in the answer's text.")
    document_id: str = Field(description="The document.")
    document_name: str = Field(description="Its name when the answer was written.")
    start: int = Field(description="Offset of the quote's first character in the document's text.")
    end: int = Field(description="Offset after its last.")
    first_page: int | None = Field(description="The page it begins on, from 1.")
    last_page: int | None = Field(description="The page it ends on.")
    quote: str = Field(description="The characters themselves.")
    boxes: list[PageBox] = Field(
        default_factory=list,
        description="Where it stands, a box a line; empty where the format has no positions.",
    )
    withdrawn: bool = Field(description="The document was deleted since.")


class Statement(View):
    """A sentence of the answer. `text[start:end]` of the answer is it; its marks `[n]` follow."""

    text: str = Field(description="The sentence, without marks.")
    start: int = Field(description="Offset of its first character in the answer's text.")
    end: int = Field(description="Offset after its last.")
    citations: list[int] = Field(description="Numbers of the citations that support it, best first.")
    supported: bool = Field(description="Whether any does.")


class Passage(View):
    """What was found for the question and could be answered from, best first."""

    document_id: str = Field(description="The document.")
    document_name: str = Field(description="Its name when the answer was written.")
    start: int = Field(description="Offset of its first character in the document's text.")
    end: int = Field(description="Offset after its last.")
    first_page: int | None = Field(description="The page it begins on, from 1.")
    last_page: int | None = Field(description="The page it ends on.")
    headings: list[str] = Field(default_factory=list, description="The headings above it.")
    score: float | None = Field(None, description="Comparable within one answer only.")


class ShortAnswer(View):
    """The phrase in a cited sentence that says the answer shortest, verbatim."""

    text: str = Field(description="The phrase.")
    start: int = Field(description="Offset of its first character in the document's text.")
    end: int = Field(description="Offset after its last.")
    citation: int = Field(description="The number of the citation that it stands in.")


class Usage(View):
    prompt_tokens: int = Field(description="Tokens of the prompt, cached ones included.")
    cached_tokens: int = Field(description="Of those, how many the engine had computed before.")
    completion_tokens: int = Field(description="Tokens written.")


class Timings(View):
    """Seconds; what does not apply (a refused question decodes nothing) is null."""

    model_config = ConfigDict(extra="allow")

    queue_seconds: float | None = Field(None, description="From acceptance until a worker took it.")
    retrieval_seconds: float | None = Field(None, description="Searching the collection.")
    ttft_seconds: float | None = Field(None, description="From acceptance to the first token.")
    prefill_seconds: float | None = Field(None, description="Computing the prompt.")
    decode_seconds: float | None = Field(None, description="From the first token to the last.")
    tpot_seconds: float | None = Field(None, description="Per token written after the first.")
    total_seconds: float | None = Field(None, description="From acceptance to the end.")


class Cost(View):
    amount: str = Field(description="Exact decimal, as text.")
    currency: str = Field(description="ISO 4217.")


class Sample(View):
    """One of several answers that were drawn."""

    text: str = Field(description="As the model wrote it.")
    finish_reason: str = Field(description="Why it ended: `stop`, `length`, …")
    seed: int | None = Field(description="What it was drawn with, where a seed was given.")
    cluster: int = Field(description="Its group in `clusters`, from 0; those of one group say the same.")
    usage: Usage = Field(description="Its own tokens.")
    cost: Cost = Field(description="Its own cost; all together are the answer's prefill and decode.")


class Samples(View):
    """What was drawn for `n`, and how far it agrees; the answer is what most of them say."""

    agreement: float = Field(description="Share of the samples that say what the answer says.")
    chosen: int = Field(description="Index of the sample that became the answer.")
    clusters: list[list[int]] = Field(description="Indices of samples that say the same; largest first.")
    items: list[Sample] = Field(description="The samples, as they were drawn.")


class Answer(View):
    """A question and what was answered; `status` is its job's."""

    id: str = Field(description="`ans_…`")
    job_id: str = Field(description="The job that writes it.")
    collection_id: str = Field(description="The collection that was asked.")
    conversation_id: str | None = Field(description="The conversation that it is a turn of, if any.")
    turn: int | None = Field(description="Its place in the conversation, from 1.")
    status: JobStatus = Field(description="`succeeded`: the rest is filled in.")
    question: str = Field(description="As it was asked.")
    mode: str = Field(description="The mode used; the one asked for until it is settled.")
    outcome: Literal["answered", "refused"] | None = Field(
        description="`refused`: the documents do not answer it. Null until finished."
    )
    text: str | None = Field(description="The answer, with `[n]` after what citation n supports.")
    output: Any = Field(
        None, description="The text of an answer of format `json_schema`, parsed; null for any other."
    )
    statements: list[Statement] = Field(description="The answer's sentences in order; none for a refusal.")
    short_answer: ShortAnswer | None = Field(
        description="Extractive answers to questions that a phrase answers; else null."
    )
    samples: Samples | None = Field(None, description="Where several were asked for with `n`; else null.")
    citations: list[Citation] = Field(description="By number, which is the order of first appearance.")
    passages: list[Passage] = Field(description="Best first.")
    steps: dict[str, Any] = Field(
        description="How the passages came about: `condense`, `history`, `queries`, `search`, `support`, "
        "`sampling`, `context`, `extraction`, `quotes`, `validation`, each where it happened."
    )
    warnings: list[str] = Field(description="Unsupported sentences, passages left out, a cut answer.")
    finish_reason: str | None = Field(description="Why writing ended: `stop`, `length`, …")
    model: str | None = Field(description="The model that answered.")
    usage: Usage = Field(description="Tokens that the answer took.")
    timings: Timings = Field(description="Where the time went.")
    cost: Cost | None = Field(description="What it cost; null until finished.")
    error: Failure | None = Field(description="Why it failed; null otherwise.")
    accepted_at: datetime = Field(description="When the question was accepted.")
    finished_at: datetime | None = Field(description="When the answer was complete.")

    @classmethod
    def of(cls, row: models.Answer, job: models.Job, *, withdrawn: Set[str]) -> Answer:
        return cls(
            id=row.id,
            job_id=row.job_id,
            collection_id=row.collection_id,
            conversation_id=row.conversation_id,
            turn=row.turn,
            status=job.status,  # type: ignore[arg-type]  # the column holds nothing else
            question=row.question,
            mode=row.mode or str(row.parameters.get("mode", "auto")),
            outcome=row.outcome,  # type: ignore[arg-type]  # the column holds nothing else
            text=row.text,
            output=_output(row),
            statements=[Statement.model_validate(stored) for stored in row.statements],
            short_answer=None if row.short_answer is None else ShortAnswer.model_validate(row.short_answer),
            steps=row.steps,
            samples=_samples(row),
            citations=[_citation(stored, withdrawn) for stored in row.citations],
            passages=[Passage.model_validate(stored) for stored in row.passages],
            warnings=row.warnings,
            finish_reason=row.finish_reason,
            model=row.model,
            usage=Usage(
                prompt_tokens=row.prompt_tokens,
                cached_tokens=row.cached_tokens,
                completion_tokens=row.completion_tokens,
            ),
            timings=Timings.model_validate(row.timings),
            cost=None
            if row.cost is None
            else Cost(amount=format_amount(row.cost), currency=row.currency or ""),
            error=failure(job.error_code, job.error_detail),
            accepted_at=row.accepted_at,
            finished_at=row.finished_at or job.finished_at,
        )


def _output(row: models.Answer) -> Any:
    form = row.parameters.get("format") or {}
    if row.outcome != "answered" or form.get("type") != "json_schema":
        return None
    return json.loads(row.text or "null")


def _samples(row: models.Answer) -> Samples | None:
    if not row.samples:
        return None
    stored, currency = row.samples, row.currency or ""
    groups = {index: number for number, cluster in enumerate(stored["clusters"]) for index in cluster}
    items = [
        Sample(
            text=item["text"],
            finish_reason=item["finish_reason"],
            seed=item["seed"],
            cluster=groups[index],
            usage=Usage.model_validate(item),
            cost=Cost(amount=item["cost"], currency=currency),
        )
        for index, item in enumerate(stored["items"])
    ]
    return Samples(
        agreement=stored["agreement"], chosen=stored["chosen"], clusters=stored["clusters"], items=items
    )


def _citation(stored: dict[str, Any], withdrawn: Set[str]) -> Citation:
    return Citation.model_validate(stored | {"withdrawn": stored["document_id"] in withdrawn})
