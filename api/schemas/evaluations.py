from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from accounting.money import format_amount
from api.schemas.answers import Cost
from api.schemas.base import Body, Failure, FreeText, Name, View, failure
from api.schemas.jobs import JobStatus
from api.schemas.questions import QuestionOptions
from core.errors import InvalidInput
from evaluation.question_file import parse_question_file
from evaluation.questions import MAX_QUESTIONS, GoldQuestion
from generation.questions import QuestionParameters
from storage import models

MAX_FILE_CHARACTERS = 8_000_000


class QuestionFile(Body):
    """A file as it is; what is wrong with it is told by line and field."""

    name: Name = Field(description="Ends in `.jsonl` or `.csv`, which says how it is read.")
    content: FreeText = Field(max_length=MAX_FILE_CHARACTERS, description="Its text.")


class NewEvaluation(Body):
    """A collection and questions whose answers are known: either `questions` or `question_file`."""

    collection_id: str = Field(max_length=100, description="The collection to ask.")
    name: Name | None = Field(None, description="For people; left out: the file's name.")
    questions: list[GoldQuestion] | None = Field(
        None, min_length=1, max_length=MAX_QUESTIONS, description="Asked in this order."
    )
    question_file: QuestionFile | None = Field(None, description="The questions as a file.")
    parameters: QuestionOptions = Field(
        default_factory=lambda: QuestionOptions.model_validate({}),
        description="As of a question: `mode`, `rerank`, …",
    )

    def question_parameters(self) -> QuestionParameters:
        return self.parameters.parameters()

    def asked(self) -> tuple[Sequence[GoldQuestion], str]:
        """The questions, however they came, and a name for them.

        Raises:
            InvalidInput: they came in both ways or in none, or the file is wrong.
        """
        if (self.questions is None) == (self.question_file is None):
            raise InvalidInput(
                "An evaluation needs either `questions` or `question_file`.", remedy="Send one of the two."
            )
        if self.question_file is not None:
            file = self.question_file
            return parse_question_file(file.name, file.content), self.name or file.name
        return self.questions or (), self.name or "questions"

    def order(self) -> dict[str, Any]:
        """As a schedule keeps it."""
        questions, name = self.asked()
        return {
            "collection_id": self.collection_id,
            "name": name,
            "questions": [question.model_dump(mode="json") for question in questions],
            "parameters": self.question_parameters().as_json(),
        }


class MeanMetric(View):
    mean: float = Field(description="Over the questions to which the metric applies.")
    num: int = Field(description="How many those are.")


class RefusalScores(View):
    """Refusing an unanswerable question is the hit; what divides by nothing is null."""

    num_refused: int = Field(description="Questions that were refused.")
    num_unanswerable: int = Field(description="Questions that should have been.")
    accuracy: float | None = Field(description="Share of questions rightly refused or rightly answered.")
    precision: float | None = Field(description="Share of the refused that are unanswerable.")
    recall: float | None = Field(description="Share of the unanswerable that were refused.")
    f1: float | None = Field(description="Harmonic mean of both.")


class Spread(View):
    mean: float = Field(description="Mean.")
    p50: float = Field(description="Median.")
    p95: float = Field(description="95 % are no larger.")
    total: float = Field(description="Sum.")
    num: int = Field(description="Over so many questions.")


class CostSum(View):
    currency: str = Field(description="ISO 4217.")
    amount: str = Field(description="Exact decimal, as text.")
    mean: str = Field(description="Per question, to twelve places.")
    num: int = Field(description="Over so many questions.")


class LanguageReport(View):
    num_scored: int = Field(description="Questions of the language that were scored.")
    metrics: dict[str, MeanMetric] = Field(description="As of the whole report.")
    refusal: RefusalScores = Field(description="As of the whole report.")


class EvaluationReport(View):
    """What it came to. Questions that failed or were not asked are counted and in no mean."""

    num_questions: int = Field(description="All questions.")
    num_scored: int = Field(description="Those answered or refused.")
    num_failed: int = Field(description="Those whose answer failed.")
    metrics: dict[str, MeanMetric] = Field(
        description="From 0 to 1, more is better: `recall_at_1` and so on (of the evidence, in the "
        "passages), `mrr`, `ndcg_at_10`, `em`, `f1`, `contains_answer`, `citation_precision`, "
        "`citations_verbatim`, `refusal_correct`."
    )
    refusal: RefusalScores = Field(description="How well it knows what the documents do not say.")
    work: dict[str, Spread] = Field(description="`prompt_tokens`, `ttft_seconds`, `total_seconds`, …")
    stage_tokens: dict[str, int] = Field(description="Tokens on the ledger, by stage.")
    burned_tokens: int = Field(description="Tokens of attempts that failed, which nobody is billed for.")
    costs: list[CostSum] = Field(description="A sum for each currency; usually one.")
    by_language: dict[str, LanguageReport] = Field(description="The same by the questions' language.")


class Evaluation(View):
    """Questions with known answers, asked of a collection; `status` is its job's."""

    id: str = Field(description="`eval_…`")
    job_id: str = Field(description="The job that asks; cancel it to stop the evaluation.")
    collection_id: str = Field(description="The collection that is asked.")
    name: str = Field(description="For people.")
    status: JobStatus = Field(description="`succeeded`: the report is of all questions.")
    parameters: dict[str, Any] = Field(description="Of each question; null and `auto`: the server's default.")
    num_questions: int = Field(description="Questions in it.")
    num_done: int = Field(description="Questions answered or failed so far.")
    report: EvaluationReport | None = Field(
        description="Null until it has ended; of a part where it was cancelled or failed."
    )
    error: Failure | None = Field(description="Why it failed; null otherwise.")
    created_at: datetime = Field(description="When it was accepted.")
    finished_at: datetime | None = Field(description="When it ended.")

    @classmethod
    def of(cls, row: models.Evaluation, job: models.Job) -> Evaluation:
        return cls(
            id=row.id,
            job_id=row.job_id,
            collection_id=row.collection_id,
            name=row.name,
            status=job.status,  # type: ignore[arg-type]  # the column holds nothing else
            parameters=row.parameters,
            num_questions=row.num_questions,
            num_done=row.num_done,
            report=EvaluationReport.model_validate(row.report) if row.report else None,
            error=failure(job.error_code, job.error_detail),
            created_at=row.created_at,
            finished_at=row.finished_at or job.finished_at,
        )


class EvaluationItem(View):
    """One question of an evaluation, and what came of it."""

    position: int = Field(description="From 0.")
    status: Literal["open", "asked", "scored", "failed"] = Field(description="How far it is.")
    question: dict[str, Any] = Field(
        description="As it was given: `id`, `question`, `answers`, `evidence`, `answerable`, `language`, …"
    )
    result: dict[str, Any] = Field(
        description="`answer_id`; once scored also `outcome`, `text`, `citations` (each with `is_verbatim` "
        "and `supports_gold`), `stage_tokens`, …: a copy, which stays when the answer goes."
    )
    metrics: dict[str, float] = Field(description="Those that apply; empty until scored.")
    cost: Cost | None = Field(description="What the answer cost.")
    error: Failure | None = Field(description="Why its answer failed; null otherwise.")

    @classmethod
    def of(cls, row: models.EvaluationItem) -> EvaluationItem:
        cost = None
        if row.cost is not None:
            cost = Cost(amount=format_amount(row.cost), currency=row.result.get("currency") or "")
        return cls(
            position=row.position,
            status=_status(row),
            question=row.question,
            result=row.result,
            metrics=row.metrics,
            cost=cost,
            error=None if row.error is None else Failure.model_validate(row.error),
        )


def _status(row: models.EvaluationItem) -> Literal["open", "asked", "scored", "failed"]:
    if row.error is not None:
        return "failed"
    if row.metrics:
        return "scored"
    return "asked" if row.result else "open"


class MetricDifference(View):
    first: float = Field(description="Mean of the first evaluation.")
    second: float = Field(description="Mean of the second.")
    difference: float = Field(description="Second minus first.")
    low: float = Field(description="Lower end of its 95 % interval, by paired bootstrap.")
    high: float = Field(description="Upper end.")
    share_opposite: float = Field(
        description="Two-sided p-value: twice the share of draws on the other side of zero."
    )
    num: int = Field(description="Questions for which both have the metric.")
    better: Literal["first", "second"] | None = Field(description="Null where the interval holds zero.")


class LanguageComparison(View):
    num_compared: int = Field(description="Questions of the language that both scored.")
    metrics: dict[str, MetricDifference] = Field(description="By name of the metric, `cost` among them.")


class Comparison(View):
    """Two evaluations over the questions that both have."""

    first: Evaluation = Field(description="The one it is compared with.")
    second: Evaluation = Field(description="The one that may be better.")
    same_questions: bool = Field(description="False: the figures are of the common questions alone.")
    num_common: int = Field(description="Questions in both.")
    num_compared: int = Field(description="Those scored in both.")
    num_gold_differs: int = Field(description="Common questions with other gold answers or evidence.")
    num_only_first: int = Field(description="Questions that the second lacks.")
    num_only_second: int = Field(description="Questions that the first lacks.")
    only_first: list[str] = Field(description="The first few of them.")
    only_second: list[str] = Field(description="The first few of them.")
    metrics: dict[str, MetricDifference] = Field(description="By name of the metric, `cost` among them.")
    by_language: dict[str, LanguageComparison] = Field(description="The same by language.")
