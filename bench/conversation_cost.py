"""What the turns of one long conversation cost, through the product's pipeline and its ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from accounting.ledger import Ledger
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from bench.search_collection import SearchBed
from bootstrap.answer_services import ModelDefaults, build_answer_pipeline
from core.clock import utc_now
from core.ids import CollectionId, ConversationId, JobId, KeyId, new_id
from core.settings import AskSettings
from core.usage import TokenUsage
from generation.pipeline import AnswerPipeline
from generation.questions import QuestionParameters, register_turn
from inference.protocols import (
    ChatTokenizer,
    Embedder,
    EngineInfo,
    EngineTimings,
    GenerationDelta,
    GenerationRequest,
)
from inference.small_model import ChatSmallModel
from storage.answers import AnswerRepository
from storage.conversations import ConversationRepository
from storage.events import EventBus
from storage.job_run import JobRun
from storage.jobs import JobQueue
from storage.models import ApiKey
from tenancy.principal import Principal, Scope

WINDOW = 8192
_AROUND_20, _AROUND_200 = (11, 30), (181, 200)
_OWNER = "bench"
_LEASE = timedelta(hours=1)
_ANSWER_WORDS = 40


@dataclass(frozen=True, slots=True)
class TurnCost:
    """Of one turn: what the ledger says, and the tokens of its prompt."""

    number: int
    cost: float
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class ConversationCost:
    turns: tuple[TurnCost, ...]
    num_folds: int
    summary_tokens: int

    @property
    def ratio(self) -> float:
        """Mean cost of the last twenty turns over that of the twenty around turn 20.

        Folding lets the history grow and shrink, so single turns are not compared.
        """
        return self.mean(_AROUND_200) / self.mean(_AROUND_20)

    @property
    def max_prompt_tokens(self) -> int:
        return max(turn.prompt_tokens for turn in self.turns)

    def mean(self, span: tuple[int, int]) -> float:
        costs = [turn.cost for turn in self.turns if span[0] <= turn.number <= span[1]]
        return sum(costs) / len(costs)


class ReadingGenerator:
    """Stands in for the engine: says the beginning of the first passage and cites it.

    What it writes costs what the same tokens would; all of a prompt counts as computed.
    """

    def __init__(self, tokenizer: ChatTokenizer, *, model: str) -> None:
        self._tokenizer = tokenizer
        self._model = model

    def info(self) -> EngineInfo:
        return EngineInfo(
            model=self._model,
            revision=self._tokenizer.revision,
            max_model_len=WINDOW,
            accepts_token_ids=True,
            reports_cached_tokens=True,
            reports_timings=True,
            accepts_cache_salt=True,
            accepts_priority=True,
            stops_repetition=True,
        )

    def is_healthy(self) -> bool:
        return True

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        prompt = self._tokenizer.decode(request.prompt_token_ids)
        # After the number comes a line of document and place, then the passage itself.
        passage = prompt.partition("[1]")[2].partition("\n")[2]
        text = " ".join(passage.split()[:_ANSWER_WORDS]) + " [1]"
        usage = TokenUsage(len(request.prompt_token_ids), 0, self._tokenizer.count(text))
        yield iter([GenerationDelta(text, usage, "stop", EngineTimings())])


class UnheardEvents(EventBus):
    """No Redis: nobody follows these answers."""

    def __init__(self) -> None:
        """Connects to nothing."""

    def publish(self, job_id: JobId, event: str, data: Mapping[str, Any]) -> None:
        """Nobody listens."""


def run_conversation(
    bed: SearchBed,
    collection_id: CollectionId,
    embedder: Embedder,
    tokenizer: ChatTokenizer,
    questions: Sequence[str],
    *,
    model: str,
) -> ConversationCost:
    """Ask the questions one after another in one conversation, each answered in writing."""
    generator = ReadingGenerator(tokenizer, model=model)
    with bed.database.write() as session:
        sync_price_book(session, load_price_book(), now=utc_now())
    pipeline = build_answer_pipeline(
        settings=AskSettings(),  # type: ignore[call-arg]
        defaults=replace(ModelDefaults.of(None), condensing="rule"),
        database=bed.database,
        events=UnheardEvents(),
        embedder=embedder,
        retrieval=bed.pipeline,
        generator=generator,
        tokenizer=tokenizer,
        small_model=ChatSmallModel(generator, tokenizer),
        cross_encoder=None,
        ledger=Ledger(),
        min_support=-1.0,  # a turn that is refused costs less: here every one is answered
    )
    principal = _principal(bed)
    with bed.database.write() as session:
        conversation_id = ConversationId(
            ConversationRepository(session, bed.tenant_id).create(collection_id).id
        )
    turns = tuple(
        _take_turn(bed, pipeline, principal, conversation_id, question, number)
        for number, question in enumerate(questions, start=1)
    )
    with bed.database.read() as session:
        conversation = ConversationRepository(session, bed.tenant_id).get(conversation_id)
    return ConversationCost(
        turns=turns,
        num_folds=len(conversation.summary_dropped),
        summary_tokens=tokenizer.count(conversation.summary),
    )


def _principal(bed: SearchBed) -> Principal:
    key_id = KeyId(new_id("key"))
    with bed.database.write() as session:
        session.add(
            ApiKey(
                id=key_id,
                tenant_id=bed.tenant_id,
                name="bench",
                prefix=key_id,
                secret_hash="",
                scopes=["ask"],
            )
        )
    return Principal(tenant_id=bed.tenant_id, key_id=key_id, scopes=frozenset({Scope.ASK}))


def _take_turn(
    bed: SearchBed,
    pipeline: AnswerPipeline,
    principal: Principal,
    conversation_id: ConversationId,
    question: str,
    number: int,
) -> TurnCost:
    with bed.database.write() as session:
        parameters = QuestionParameters()
        answer = register_turn(session, principal, conversation_id, question, parameters, max_attempts=1)
        job_id = JobId(answer.job_id)
    with bed.database.write() as session:
        job = JobQueue(session).claim_job(job_id, _OWNER, lease=_LEASE)
    if job is None:
        raise RuntimeError(f"Job {job_id} cannot be claimed.")
    pipeline.run(JobRun(job, _OWNER, lambda: None))
    with bed.database.read() as session:
        done = AnswerRepository(session, bed.tenant_id).get_by_job(job_id)
    return TurnCost(number, float(done.cost or 0), done.prompt_tokens)
