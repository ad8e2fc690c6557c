"""Haystack as its first tutorial has it.

Splits of 200 words, the best 10, the tutorial's prompt. The splitter takes white space for the end
of a word, so it leaves Chinese documents whole, each longer than the engine's window: there the
recursive splitter stands in, told to count characters and otherwise at its defaults (200).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from haystack.components.builders import ChatPromptBuilder
from haystack.components.converters import TextFileToDocument
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.preprocessors import DocumentSplitter, RecursiveDocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret
from haystack_integrations.components.embedders.sentence_transformers import (
    SentenceTransformersDocumentEmbedder,
    SentenceTransformersTextEmbedder,
)

from bench.peers.protocol import Language, PeerOptions, serve

_PROMPT = """
Given the following information, answer the question.

Context:
{% for document in documents %}
    {{ document.content }}
{% endfor %}

Question: {{question}}
Answer:
"""


class HaystackPeer:
    def __init__(self, options: PeerOptions) -> None:
        self._embed_documents = SentenceTransformersDocumentEmbedder(
            model=options.embedder, progress_bar=False
        )
        self._embed_question = SentenceTransformersTextEmbedder(model=options.embedder, progress_bar=False)
        for embedder in (self._embed_documents, self._embed_question):
            embedder.warm_up()
        self._build = ChatPromptBuilder(
            template=[ChatMessage.from_user(_PROMPT)], required_variables=["documents", "question"]
        )
        self._generate = OpenAIChatGenerator(
            model=options.model,
            api_key=Secret.from_token("none"),
            api_base_url=f"{options.engine_url}/v1",
            generation_kwargs={"max_tokens": options.max_tokens, "temperature": 0.0},
            timeout=600.0,
        )
        self._retrieve: Any = None

    def index(self, files: Sequence[Path], language: Language) -> int:
        documents = TextFileToDocument().run(sources=[str(file) for file in files])["documents"]
        splitter: Any = (
            DocumentSplitter()
            if language == "en"
            else RecursiveDocumentSplitter(split_unit="char", separators=["\n\n", "\n", "。", "，"])
        )
        splitter.warm_up()
        chunks = splitter.run(documents=documents)["documents"]
        store = InMemoryDocumentStore()
        store.write_documents(self._embed_documents.run(documents=chunks)["documents"])
        self._retrieve = InMemoryEmbeddingRetriever(store)
        return len(chunks)

    def retrieve(self, question: str) -> Sequence[Any]:
        vector = self._embed_question.run(text=question)["embedding"]
        passages: Sequence[Any] = self._retrieve.run(query_embedding=vector)["documents"]
        return passages

    def answer(self, question: str, passages: Sequence[Any]) -> str:
        prompt = self._build.run(documents=list(passages), question=question)["prompt"]
        return str(self._generate.run(messages=prompt)["replies"][0].text or "")


if __name__ == "__main__":
    serve(HaystackPeer)
