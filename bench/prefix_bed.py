"""A collection of reports for `bench prefix`, asked through the product's whole pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import redis

from accounting.ledger import Ledger
from accounting.price_book import load_price_book
from accounting.price_sync import sync_price_book
from bench.conversation_cost import UnheardEvents
from bench.prefix_simulation import Library, SimulatedQuestion
from bench.prefix_systems import OURS, PEER_LAYOUTS, PeerLayout, RecordingClient, Sent, peer_prompt
from bench.prefix_workloads import Ask, Report, Workload
from bench.search_collection import CutDocument, MemoizingEmbedder, SearchBed
from bootstrap.answer_services import build_answer_pipeline
from bootstrap.model_defaults import ModelDefaults
from core.clock import utc_now
from core.ids import ConversationId, DocumentId, JobId, KeyId, new_id
from core.settings import load_settings
from generation.instructions import instructions_for
from generation.pipeline import AnswerPipeline
from generation.prefix.pieces import Piece, PieceKey, chunk_key
from generation.prefix.shelf import PieceShelf
from generation.prompt import PassageLayout
from generation.prompt_passages import passage_id, prompt_passage
from generation.questions import QuestionParameters, register_question, register_turn
from inference.completions_client import CompletionsClient
from inference.engine_metrics import EngineCounters
from inference.protocols import ChatTokenizer, GenerationRequest, SamplingParameters
from inference.small_model import ChatSmallModel
from inference.tracked_generator import TrackedEngine
from ingest.chunking import chunk_document
from retrieval.filters import DocumentFilter
from retrieval.pipeline import RetrievalPipeline, SearchResult
from storage.chunks import ChunkRepository
from storage.conversations import ConversationRepository
from storage.documents import DocumentRepository
from storage.job_run import JobRun
from storage.jobs import JobQueue
from storage.models import ApiKey
from storage.paging import PageRequest
from storage.prefix_leads import PrefixLeads
from tenancy.principal import Principal, Scope

_OWNER = "bench"
_LEASE = timedelta(hours=1)
MAX_CHUNK_TOKENS, OVERLAP_TOKENS = 240, 24
MAX_REPORTS = 200


class FoundOnce(RetrievalPipeline):
    """Searches each question once: all systems get the same passages, and none waits for them again."""

    def __init__(self, inner: RetrievalPipeline) -> None:
        self._inner = inner
        self._found: dict[tuple[object, ...], SearchResult] = {}

    def search(self, tenant_id: Any, collection_id: Any, question: str, **options: Any) -> SearchResult:
        options.pop("vectors", None)
        key = (collection_id, question, *(str(options[name]) for name in sorted(options)))
        if key not in self._found:
            self._found[key] = self._inner.search(tenant_id, collection_id, question, **options)
        return self._found[key]


@dataclass(frozen=True, slots=True)
class Ran:
    """A system's run of a workload: the engine's own count, and each request."""

    computed_tokens: int
    prompt_tokens: int
    sent: tuple[Sent, ...]


class PrefixBed:
    """Reports in a collection of a throw-away folder, and an engine that is asked about them."""

    def __init__(
        self,
        folder: Path,
        reports: Sequence[Report],
        *,
        embedder: MemoizingEmbedder,
        tokenizer: ChatTokenizer,
        redis_url: str,
    ) -> None:
        """`redis_url`: where leaders of shared prefixes are known; emptied before each run."""
        self._redis = redis.Redis.from_url(redis_url)
        self._leads = PrefixLeads(redis_url)
        self._bed = SearchBed(folder, embedder)
        self._embedder = embedder
        self._tokenizer = tokenizer
        self._retrieval = FoundOnce(self._bed.pipeline)
        documents = [_cut(report, embedder, tokenizer) for report in reports]
        self._collection_id, _ = self._bed.add_documents("prefix", documents)
        self._ids = self._document_ids()
        self._principal = self._enter()

    def close(self) -> None:
        self._bed.close()
        self._leads.close()
        self._redis.close()

    def run(self, system: str, workload: Workload, engine: CompletionsClient, *, max_tokens: int) -> Ran:
        """The workload through one system, from an empty cache; max_tokens of each answer are written."""
        recorder = RecordingClient(engine)
        computed = prompts = 0
        ask = self._asker(system, recorder, workload, max_tokens)
        engine.reset_prefix_cache()
        self._redis.flushall()
        for group in workload.groups:
            if workload.is_fresh:
                engine.reset_prefix_cache()
                ask = self._asker(system, recorder, workload, max_tokens)
            before = engine.engine_counters()
            with ThreadPoolExecutor(workload.num_clients) as pool:
                list(pool.map(ask, group))
            used, total = _used(before, engine.engine_counters())
            computed, prompts = computed + used, prompts + total
        return Ran(computed, prompts, tuple(recorder.sent))

    def library(self) -> Library:
        """All documents, whole and in pieces, for the simulation."""
        layout, shelf = self._layout(), PieceShelf(self._bed.database)
        wholes: dict[DocumentId, Piece] = {}
        for document_id in self._ids.values():
            whole = shelf.whole(self._bed.tenant_id, document_id, layout)
            assert whole is not None
            wholes[document_id] = whole
        with self._bed.database.read() as session:
            repository = ChunkRepository(session, self._bed.tenant_id)
            keys = [chunk_key(chunk_id) for chunk_id in repository.list_live_ids(self._collection_id)]
        pieces = shelf.load(self._bed.tenant_id, self._collection_id, keys, layout)
        return Library(wholes, {**pieces, **{whole.key: whole for whole in wholes.values()}})

    def opening_ids(self) -> tuple[int, ...]:
        """What stands in front of the first passage of every prompt of ours."""
        return self._layout().opening_ids

    def simulated(self, workload: Workload) -> list[SimulatedQuestion]:
        """What was found for each question, as the simulation takes it."""
        layout, shelf = self._layout(), PieceShelf(self._bed.database)
        found = []
        for ask in workload.asks:
            passages = self._search(ask, workload).passages
            whole = [
                Piece(
                    PieceKey(passage_id(p)),
                    p,
                    layout.passage_ids(prompt_passage(p, p.text, is_numbered=False)),
                )
                for p in passages
            ]
            pieces = shelf.of_passages(self._bed.tenant_id, self._collection_id, passages, layout)
            found.append(SimulatedQuestion(tuple(whole), pieces))
        return found

    def _layout(self) -> PassageLayout:
        frame = self._tokenizer.chat_frame(has_system=True)
        return PassageLayout(self._tokenizer, frame, instructions_for("", brief=True))

    def _document_ids(self) -> dict[str, DocumentId]:
        with self._bed.database.read() as session:
            found = DocumentRepository(session, self._bed.tenant_id).list_page(
                self._collection_id, PageRequest(limit=MAX_REPORTS)
            )
        return {document.name: DocumentId(document.id) for document in found.items}

    def _enter(self) -> Principal:
        key_id = KeyId(new_id("key"))
        with self._bed.database.write() as session:
            sync_price_book(session, load_price_book(), now=utc_now())
            session.add(
                ApiKey(
                    id=key_id,
                    tenant_id=self._bed.tenant_id,
                    name="bench",
                    prefix=key_id,
                    secret_hash="",
                    scopes=["ask"],
                )
            )
        return Principal(tenant_id=self._bed.tenant_id, key_id=key_id, scopes=frozenset({Scope.ASK}))

    def _search(self, ask: Ask, workload: Workload) -> SearchResult:
        settings = load_settings().ask
        return self._retrieval.search(
            self._bed.tenant_id,
            self._collection_id,
            ask.text,
            queries=(),
            filter=self._filter(ask),
            rerank=settings.rerank,
            num_candidates=settings.num_candidates,
            num_passages=workload.num_passages or settings.num_passages,
            max_passage_tokens=workload.max_context_tokens or settings.max_context_tokens,
        )

    def _filter(self, ask: Ask) -> DocumentFilter:
        return DocumentFilter(document_ids=(self._ids[ask.document],) if ask.document else ())

    def _asker(
        self, system: str, recorder: RecordingClient, workload: Workload, max_tokens: int
    ) -> Callable[[Ask], None]:
        if system in PEER_LAYOUTS:
            return lambda ask: self._ask_peer(
                recorder, PEER_LAYOUTS[system](ask.text, self._search(ask, workload).passages), max_tokens
            )
        pipeline = self._pipeline(recorder, leads=self._leads if system == OURS else None)
        conversations: dict[str, ConversationId] = {}
        parameters = QuestionParameters(
            mode="abstractive",
            extraction="none",
            prefix_planner=system == OURS,
            context=workload.context,
            num_passages=workload.num_passages,
            max_context_tokens=workload.max_context_tokens,
            max_tokens=max_tokens,
            temperature=0.0,
        )
        return lambda ask: self._ask_product(pipeline, ask, parameters, conversations)

    def _pipeline(self, recorder: RecordingClient, *, leads: PrefixLeads | None) -> AnswerPipeline:
        generator = TrackedEngine(recorder)
        return build_answer_pipeline(
            settings=load_settings().ask,
            defaults=replace(ModelDefaults.of(1), condensing="rule"),
            database=self._bed.database,
            events=UnheardEvents(),
            embedder=self._embedder,
            retrieval=self._retrieval,
            generator=generator,
            tokenizer=self._tokenizer,
            small_model=ChatSmallModel(generator, self._tokenizer),
            cross_encoder=None,
            ledger=Ledger(),
            leads=leads,
            min_support=-1.0,  # what is refused is not written: here every question is
        )

    def _ask_peer(self, recorder: RecordingClient, layout: PeerLayout, max_tokens: int) -> None:
        request = GenerationRequest(
            peer_prompt(self._tokenizer, layout), SamplingParameters(max_tokens=max_tokens)
        )
        with recorder.stream(request) as deltas:
            for _ in deltas:
                pass

    def _ask_product(
        self,
        pipeline: AnswerPipeline,
        ask: Ask,
        parameters: QuestionParameters,
        conversations: dict[str, ConversationId],
    ) -> None:
        database = self._bed.database
        parameters = replace(parameters, filter=self._filter(ask))
        with database.write() as session:
            if ask.conversation:
                if ask.conversation not in conversations:
                    made = ConversationRepository(session, self._bed.tenant_id).create(self._collection_id)
                    conversations[ask.conversation] = ConversationId(made.id)
                answer = register_turn(
                    session,
                    self._principal,
                    conversations[ask.conversation],
                    ask.text,
                    parameters,
                    max_attempts=1,
                )
            else:
                answer = register_question(
                    session, self._principal, self._collection_id, ask.text, parameters, max_attempts=1
                )
            job_id = JobId(answer.job_id)
        with database.write() as session:
            job = JobQueue(session).claim_job(job_id, _OWNER, lease=_LEASE)
        assert job is not None
        pipeline.run(JobRun(job, _OWNER, lambda: None))


def _cut(report: Report, embedder: MemoizingEmbedder, tokenizer: ChatTokenizer) -> CutDocument:
    drafts = chunk_document(
        report.text,
        (),
        (0,),
        embedder_tokenizer=embedder.tokenizer,
        generator_tokenizer=tokenizer,
        max_tokens=MAX_CHUNK_TOKENS,
        overlap_tokens=OVERLAP_TOKENS,
    )
    return CutDocument(report.name, report.title, report.text, tuple(drafts))


def _used(before: EngineCounters, after: EngineCounters) -> tuple[int, int]:
    """Prompt tokens computed in between, and all prompt tokens."""
    prompts = after.prompt_tokens - before.prompt_tokens
    return prompts - (after.cached_tokens - before.cached_tokens), prompts
