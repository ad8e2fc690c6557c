"""LangChain's map-reduce summarizer, as its guide on summarizing texts has it.

`load_summarize_chain` lies in a package of retired chains; this is the same steps in LangChain's own
expressions: chunks of 1,000 tokens, each summarized, summaries joined until they fit 3,000 tokens, then
one of all; prompts as that chain's `MAP_PROMPT` and `COMBINE_PROMPT` have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_openai import ChatOpenAI
from langchain_text_splitters import RecursiveCharacterTextSplitter

from bench.peers.protocol import Language, PeerOptions, serve

_PROMPT = 'Write a concise summary of the following:\n\n\n"{text}"\n\n\nCONCISE SUMMARY:'
_MAX_JOINED_TOKENS = 3000
_CHARACTERS_PER_TOKEN = {"en": 4, "zh": 1}


class LangChainSummaries:
    """`index` takes one text; `answer` summarizes it, whatever is asked."""

    def __init__(self, options: PeerOptions) -> None:
        llm = ChatOpenAI(
            model=options.model,
            base_url=f"{options.engine_url}/v1",
            api_key="none",
            temperature=0.0,
            max_tokens=options.max_tokens,
            timeout=600.0,
        )
        self._chain = PromptTemplate.from_template(_PROMPT) | llm | StrOutputParser()
        self._chunks: list[str] = []
        self._characters_per_token = 4

    def index(self, files: Sequence[Path], language: Language) -> int:
        self._characters_per_token = _CHARACTERS_PER_TOKEN[language]
        splitter = RecursiveCharacterTextSplitter(
            chunk_size=1000 * self._characters_per_token, chunk_overlap=0
        )
        self._chunks = [
            chunk for file in files for chunk in splitter.split_text(file.read_text(encoding="utf-8"))
        ]
        return len(self._chunks)

    def retrieve(self, question: str) -> Sequence[Any]:
        return self._chunks

    def answer(self, question: str, passages: Sequence[Any]) -> str:
        told = self._chain.batch([{"text": chunk} for chunk in passages], {"max_concurrency": 4})
        while self._size(told) > _MAX_JOINED_TOKENS and len(told) > 1:
            told = self._chain.batch([{"text": "\n\n".join(group)} for group in self._groups(told)])
        return str(self._chain.invoke({"text": "\n\n".join(told)}))

    def _groups(self, texts: Sequence[str]) -> list[list[str]]:
        groups: list[list[str]] = [[]]
        for text in texts:
            if groups[-1] and self._size([*groups[-1], text]) > _MAX_JOINED_TOKENS:
                groups.append([])
            groups[-1].append(text)
        return groups

    def _size(self, texts: Sequence[str]) -> int:
        return sum(map(len, texts)) // self._characters_per_token


if __name__ == "__main__":
    serve(LangChainSummaries)
