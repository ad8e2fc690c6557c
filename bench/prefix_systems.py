"""Systems of `bench prefix`: the product with its planner on and off, and the prompts of its peers.

Peers get the passages that the product found, in the order of their rank, in the prompt that the
peer's defaults make of them; only the layout differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from core.usage import TokenUsage
from inference.engine_metrics import EngineCache, EngineCounters
from inference.pooled_engine import EngineClient
from inference.protocols import (
    ChatTokenizer,
    EngineInfo,
    GenerationDelta,
    GenerationRequest,
)
from inference.tracked_generator import TellsCache
from retrieval.passages import Passage

OURS = "ours"
PLANNER_OFF = "retrieval order"
LLAMAINDEX, HAYSTACK, LANGCHAIN = "llamaindex", "haystack", "langchain"


@dataclass(frozen=True, slots=True)
class Sent:
    """A request, as the engine reported it; `ttft_seconds` counts from the client's send."""

    usage: TokenUsage
    ttft_seconds: float
    text: str


@dataclass
class RecordingClient:
    """An engine's client that keeps what became of each request."""

    client: EngineClient
    sent: list[Sent] = field(default_factory=list)

    def info(self) -> EngineInfo:
        return self.client.info()

    def is_healthy(self) -> bool:
        return self.client.is_healthy()

    def engine_counters(self) -> EngineCounters:
        return self.client.engine_counters()

    def engine_cache(self) -> EngineCache | None:
        return self.client.engine_cache() if isinstance(self.client, TellsCache) else None

    @contextmanager
    def stream(self, request: GenerationRequest) -> Iterator[Iterator[GenerationDelta]]:
        with self.client.stream(request) as deltas:
            yield self._watch(deltas)

    def _watch(self, deltas: Iterator[GenerationDelta]) -> Iterator[GenerationDelta]:
        text = ""
        for delta in deltas:
            text += delta.text
            if delta.timings is not None:
                self.sent.append(Sent(delta.usage, delta.timings.ttft_seconds, text))
            yield delta


@dataclass(frozen=True, slots=True)
class PeerLayout:
    """A prompt's system text (None: none) and what the user says."""

    system: str | None
    user: str


def llamaindex_layout(question: str, passages: Sequence[Passage]) -> PeerLayout:
    """`compact` synthesis for chat models; a node's text comes with its file's path."""
    context = "\n\n".join(f"file_path: {p.document_name}\n\n{p.text}" for p in passages)
    return PeerLayout(
        "You are an expert Q&A system that is trusted around the world.\n"
        "Always answer the query using the provided context information, and not prior knowledge.\n"
        "Some rules to follow:\n"
        "1. Never directly reference the given context in your answer.\n"
        "2. Avoid statements like 'Based on the context, ...' or 'The context information ...' or anything "
        "along those lines.",
        f"Context information is below.\n---------------------\n{context}\n---------------------\n"
        "Given the context information and not prior knowledge, answer the query.\n"
        f"Query: {question}\nAnswer: ",
    )


def haystack_layout(question: str, passages: Sequence[Passage]) -> PeerLayout:
    """Its first tutorial's prompt."""
    context = "".join(f"\n    {p.text}\n" for p in passages)
    return PeerLayout(
        None,
        "\nGiven the following information, answer the question.\n\nContext:\n"
        f"{context}\n\nQuestion: {question}\nAnswer:\n",
    )


def langchain_layout(question: str, passages: Sequence[Passage]) -> PeerLayout:
    """`rlm/rag-prompt`: the question stands in front of the passages."""
    context = "\n\n".join(p.text for p in passages)
    return PeerLayout(
        None,
        "You are an assistant for question-answering tasks. Use the following pieces of retrieved context to "
        "answer the question. If you don't know the answer, just say that you don't know. Use three sentences "
        f"maximum and keep the answer concise.\nQuestion: {question} \nContext: {context} \nAnswer:",
    )


PEER_LAYOUTS: Mapping[str, Callable[[str, Sequence[Passage]], PeerLayout]] = {
    LLAMAINDEX: llamaindex_layout,
    HAYSTACK: haystack_layout,
    LANGCHAIN: langchain_layout,
}


def peer_prompt(tokenizer: ChatTokenizer, layout: PeerLayout) -> tuple[int, ...]:
    """Token ids of the chat, as the engine's own template would make them."""
    frame = tokenizer.chat_frame(has_system=layout.system is not None)
    system = tokenizer.encode(layout.system) if layout.system is not None else ()
    return (*frame.head, *system, *frame.middle, *tokenizer.encode(layout.user), *frame.tail)
