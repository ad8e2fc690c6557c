"""LlamaIndex as its starter example with local models has it.

Chunks of 1,024 of OpenAI's tokens (of which the embedder reads its first 512), the best 2, put
together and answered by the query engine's own response synthesizer (`compact`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core import Settings, SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.llms.openai_like import OpenAILike

from bench.peers.protocol import Language, PeerOptions, serve


class LlamaIndexPeer:
    def __init__(self, options: PeerOptions) -> None:
        Settings.embed_model = HuggingFaceEmbedding(model_name=options.embedder)
        Settings.llm = OpenAILike(
            model=options.model,
            api_base=f"{options.engine_url}/v1",
            api_key="none",
            context_window=options.window,
            is_chat_model=True,
            max_tokens=options.max_tokens,
            temperature=0.0,
            timeout=600.0,
        )
        self._retriever: Any = None
        self._synthesizer: Any = None

    def index(self, files: Sequence[Path], language: Language) -> int:
        documents = SimpleDirectoryReader(input_files=[str(file) for file in files]).load_data()
        index = VectorStoreIndex.from_documents(documents)
        self._retriever = index.as_retriever()
        # As `index.as_query_engine()` makes it.
        self._synthesizer = get_response_synthesizer()
        return len(index.docstore.docs)

    def retrieve(self, question: str) -> Sequence[Any]:
        passages: Sequence[Any] = self._retriever.retrieve(question)
        return passages

    def answer(self, question: str, passages: Sequence[Any]) -> str:
        return str(self._synthesizer.synthesize(question, list(passages)))


if __name__ == "__main__":
    serve(LlamaIndexPeer)
