"""Both pipelines on a real database and real indexes, with an embedder that needs no model."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from accounting.ledger import Ledger
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from bootstrap.answer_services import ModelDefaults, build_answer_pipeline
from bootstrap.job_kinds import settle_lost
from core.clock import utc_now
from core.ids import AnswerId, CollectionId, JobId, KeyId, TenantId, new_id
from core.settings import Settings, load_settings
from core.usage import TokenUsage
from generation.leading import Leads
from generation.pipeline import AnswerPipeline
from generation.questions import QuestionParameters, register_question
from inference.protocols import (
    ChatFrame,
    EngineInfo,
    EngineTimings,
    GeneratedToken,
    GenerationDelta,
    GenerationRequest,
    TokenChoice,
)
from inference.small_model import ChatSmallModel
from ingest.compaction import CompactionPipeline
from ingest.embedding import ChunkEmbedder
from ingest.pipeline import IngestPipeline
from ingest.uploads import FileReceiver, register_upload
from retrieval.dense_index import DenseIndex
from retrieval.index_writer import IndexWriter
from retrieval.lexical_index import LexicalIndex
from retrieval.maintenance import IndexMaintenance
from retrieval.pipeline import RetrievalPipeline
from storage.blobs import LocalBlobStore
from storage.collections import CollectionRepository
from storage.database import Database
from storage.events import EventBus
from storage.job_run import JobRun
from storage.jobs import JobQueue
from storage.models import Answer, ApiKey, Job, Tenant, UploadedFile
from storage.uploads import UploadedFileRepository
from tenancy.principal import Principal, Scope
from tests.hashing_embedder import CharacterTokenizer, HashingEmbedder


class WordTokenizer(CharacterTokenizer):
    """A generator's tokenizer of one token a character, with a frame of three tokens."""

    revision = "characters"
    vocabulary_size = 0x110000

    def token_bytes(self, token_ids: Sequence[int]) -> list[bytes]:
        return [chr(token_id).encode() if token_id > 3 else b"" for token_id in token_ids]

    def chat_frame(self, *, has_system: bool) -> ChatFrame:
        return ChatFrame(head=(1,), middle=(2,), tail=(3,))


@dataclass
class ScriptedGenerator:
    """Says what it is told, a word a delta; `fail_after` deltas it raises `failure`.

    `replies` are said first, one a request, then `text`.
    `texts` are what it says to requests whose id ends so, instead of `text`.
    """

    text: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    failure: Exception | None = None
    fail_after: int = 0
    replies: list[str] = field(default_factory=list)
    requests: list[GenerationRequest] = field(default_factory=list)

    def info(self) -> EngineInfo:
        return EngineInfo(
            model="scripted",
            revision="1",
            max_model_len=8192,
            accepts_token_ids=True,
            reports_cached_tokens=True,
            reports_timings=True,
            accepts_cache_salt=True,
            accepts_priority=True,
            stops_repetition=True,
            keeps_context=True,
            reports_logprobs=True,
            reports_token_ids=True,
        )

    def is_healthy(self) -> bool:
        return True

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        self.requests.append(request)
        yield self._deltas(request)

    def _deltas(self, request: GenerationRequest) -> Iterator[GenerationDelta]:
        own = (text for end, text in self.texts.items() if request.request_id.endswith(end))
        text = self.replies.pop(0) if self.replies else next(own, self.text)
        words = [f"{word} " for word in text.split()]
        for i, word in enumerate(words):
            if self.failure is not None and i == self.fail_after:
                raise self.failure
            usage = TokenUsage(len(request.prompt_token_ids), 32, i + 1)
            last = i == len(words) - 1
            yield GenerationDelta(
                word,
                usage,
                finish_reason="stop" if last else None,
                tokens=_tokens(word) if request.num_logprobs else (),
                timings=EngineTimings(0.0, 0.1, 0.2, 0.1, 0.3) if last else None,
            )


def _tokens(word: str) -> tuple[GeneratedToken, ...]:
    """One a character, each of probability 1/2, with "x" of 1/4 beside it."""
    half, quarter = math.log(0.5), math.log(0.25)
    return tuple(
        GeneratedToken(ord(c), "", half, (TokenChoice(ord(c), "", half), TokenChoice(ord("x"), "", quarter)))
        for c in word
    )


class SilentEvents(EventBus):
    """Keeps what is published in a list; there is no Redis."""

    def __init__(self) -> None:
        self.published: list[tuple[str, str, Mapping[str, object]]] = []

    def publish(self, job_id: JobId, event: str, data: Mapping[str, object]) -> None:
        self.published.append((job_id, event, data))


@dataclass
class House:
    """A tenant with one collection, and both pipelines."""

    database: Database
    settings: Settings
    principal: Principal
    collection_id: CollectionId
    embedder: HashingEmbedder
    generator: ScriptedGenerator
    events: SilentEvents
    blobs: LocalBlobStore
    ingest: IngestPipeline
    retrieval: RetrievalPipeline
    answers: AnswerPipeline
    compaction: CompactionPipeline

    def upload(
        self,
        files: Mapping[str, bytes],
        *,
        collection_id: CollectionId | None = None,
        tags: Sequence[str] = (),
    ) -> JobId:
        received = []
        for name, content in files.items():
            receiver = FileReceiver(self.principal, self.blobs, name, self.settings.upload)
            receiver.write(content)
            received.append(receiver.finish())
        with self.database.write() as session:
            job = register_upload(
                session,
                self.principal,
                collection_id or self.collection_id,
                received,
                max_attempts=3,
                tags=tags,
            )
            return JobId(job.id)

    def ask(self, question: str, **parameters: object) -> tuple[JobId, AnswerId]:
        with self.database.write() as session:
            answer = register_question(
                session,
                self.principal,
                self.collection_id,
                question,
                QuestionParameters(**parameters),  # type: ignore[arg-type]
                max_attempts=3,
            )
            return JobId(answer.job_id), AnswerId(answer.id)

    def claim(self, job_id: JobId) -> JobRun:
        owner = uuid.uuid4().hex
        with self.database.write() as session:
            job = JobQueue(session).claim_job(job_id, owner, lease=timedelta(seconds=60))
            assert job is not None
            settle_lost(session, session.get_one(Job, job_id))
        return JobRun(job=job, owner=owner, checkpoint=lambda: None)

    def lose_worker(self, job_id: JobId) -> None:
        """What the relay does once a dead worker's lease has expired."""
        with self.database.write() as session:
            session.get_one(Job, job_id).lease_expires_at = utc_now() - timedelta(seconds=1)
        with self.database.write() as session:
            JobQueue(session).take_up_expired()

    def files(self, job_id: JobId) -> Sequence[UploadedFile]:
        with self.database.read() as session:
            return UploadedFileRepository(session, self.principal.tenant_id).list_by_job(job_id)

    def answer(self, answer_id: AnswerId) -> Answer:
        with self.database.read() as session:
            return session.get_one(Answer, answer_id)


def build_house(
    database: Database,
    root: Path,
    *,
    leads: Leads | None = None,
    generator: ScriptedGenerator | None = None,
) -> House:
    settings = load_settings(home=root)
    embedder, events = HashingEmbedder(), SilentEvents()
    generator = generator or ScriptedGenerator()
    blobs = LocalBlobStore(settings.blob_dir)
    dense, lexical = DenseIndex(settings.index_dir), LexicalIndex(settings.index_dir)
    tokenizer, ledger = WordTokenizer(), Ledger()
    retrieval = RetrievalPipeline(database=database, embedder=embedder, dense=dense, lexical=lexical)
    ingest = IngestPipeline(
        settings=settings,
        database=database,
        blobs=blobs,
        chunk_embedder=ChunkEmbedder(database, embedder, ledger),
        embedder_tokenizer=tokenizer,
        generator_tokenizer=tokenizer,
        max_chunk_tokens=settings.chunk.max_tokens,
        index_writer=IndexWriter(dense=dense, lexical=lexical),
    )
    answers = build_answer_pipeline(
        settings=settings.ask,
        defaults=replace(ModelDefaults.of(None), mode="extractive", condensing="rule"),
        database=database,
        events=events,
        embedder=embedder,
        retrieval=retrieval,
        generator=generator,
        tokenizer=tokenizer,
        small_model=ChatSmallModel(generator, tokenizer),
        cross_encoder=None,
        ledger=ledger,
        min_support=0.0,
        leads=leads,
    )
    tenant_id = TenantId(new_id("ten"))
    principal = Principal(tenant_id, KeyId(new_id("key")), frozenset(Scope))
    with database.write() as session:
        session.add(Tenant(id=tenant_id, name=tenant_id))
        sync_price_book(session, load_price_book(), now=utc_now())
        session.flush()
        _add_key(session, principal)
        collection = CollectionRepository(session, tenant_id).create("papers")
    return House(
        database=database,
        settings=settings,
        principal=principal,
        collection_id=CollectionId(collection.id),
        embedder=embedder,
        generator=generator,
        events=events,
        blobs=blobs,
        ingest=ingest,
        retrieval=retrieval,
        answers=answers,
        compaction=CompactionPipeline(
            database,
            IndexMaintenance(
                database=database, embedder=embedder, dense=dense, lexical=lexical, ledger=ledger
            ),
        ),
    )


def _add_key(session: Session, principal: Principal) -> None:
    session.add(
        ApiKey(
            id=principal.key_id,
            tenant_id=principal.tenant_id,
            name="test",
            prefix=principal.key_id,
            secret_hash="",
            scopes=["admin"],
        )
    )
    session.flush()
