"""LangChain as its tutorial on retrieval has it.

Chunks of 1,000 characters that share 200, the best 4 (the vector store's default), and the prompt
`rlm/rag-prompt` that the tutorial fetches from LangChain's hub, word for word.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_huggingface import HuggingFaceEmbeddings
from langchain_openai import ChatOpenAI
from langchain_text_splitters import RecursiveCharacterTextSplitter

from bench.peers.protocol import Language, PeerOptions, serve

_PROMPT = (
    "You are an assistant for question-answering tasks. Use the following pieces of retrieved context to "
    "answer the question. If you don't know the answer, just say that you don't know. Use three sentences "
    "maximum and keep the answer concise.\nQuestion: {question} \nContext: {context} \nAnswer:"
)


class LangChainPeer:
    def __init__(self, options: PeerOptions) -> None:
        self._embeddings = HuggingFaceEmbeddings(model_name=options.embedder)
        self._prompt = ChatPromptTemplate.from_messages([("human", _PROMPT)])
        self._llm = ChatOpenAI(
            model=options.model,
            base_url=f"{options.engine_url}/v1",
            api_key="none",
            temperature=0.0,
            max_tokens=options.max_tokens,
            timeout=600.0,
        )
        self._store = InMemoryVectorStore(self._embeddings)

    def index(self, files: Sequence[Path], language: Language) -> int:
        documents = [
            Document(page_content=file.read_text(encoding="utf-8"), metadata={"source": file.name})
            for file in files
        ]
        splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
        chunks = splitter.split_documents(documents)
        self._store = InMemoryVectorStore(self._embeddings)
        self._store.add_documents(chunks)
        return len(chunks)

    def retrieve(self, question: str) -> Sequence[Any]:
        passages: Sequence[Any] = self._store.similarity_search(question)
        return passages

    def answer(self, question: str, passages: Sequence[Any]) -> str:
        context = "\n\n".join(passage.page_content for passage in passages)
        message = self._prompt.invoke({"question": question, "context": context})
        return str(self._llm.invoke(message).content)


if __name__ == "__main__":
    serve(LangChainPeer)
