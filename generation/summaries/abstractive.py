"""Summaries that the engine writes, each sentence tied to the sentences that support it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from accounting.stages import Stage
from generation.answer_draft import Statement
from generation.attribution import attribute
from generation.citations import Quote
from generation.consumption import Consumption
from generation.one_request import written
from generation.quotes import estimate_tokens
from generation.summaries.instructions import ANSWER_LABEL, CONTINUED, UP_TO_HERE, system_text
from generation.summaries.nodes import Node
from generation.summaries.parameters import SummaryParameters
from generation.summaries.sections import Section
from generation.summaries.writing import Ceiling, Task, Written
from inference.protocols import ChatTokenizer, Embedder, GenerationRequest, Generator, SamplingParameters
from retrieval.near_duplicates import fingerprint, is_duplicate
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.sentences import Sentence

REVISION = "1"
"""Changes whenever the same text would be asked for in other words."""

SECTION_TOKENS = 1500
_FRAME_TOKENS = 300  # instructions, labels and the template's own, at most
_MOST_PROMPT_TOKENS = 700  # of a caller's own instructions


class AbstractiveWriter:
    """Has the engine write each node; what it writes is held against what it read."""

    def __init__(self, *, generator: Generator, tokenizer: ChatTokenizer, embedder: Embedder) -> None:
        self._generator = generator
        self._tokenizer = tokenizer
        self._embedder = embedder

    @property
    def section_tokens(self) -> int:
        return min(SECTION_TOKENS, self._generator.info().max_model_len // 3)

    def most_children(self, room_tokens: int) -> int:
        room = self._generator.info().max_model_len - room_tokens - _FRAME_TOKENS - _MOST_PROMPT_TOKENS
        return max(2, min(16, room // max(1, room_tokens)))

    def recipe(self, parameters: SummaryParameters) -> dict[str, Any]:
        info = self._generator.info()
        return {
            "writer": "abstractive",
            "revision": f"{REVISION}:{info.model}:{info.revision}:{self._embedder.revision}",
            "style": parameters.style,
            "prompt": parameters.prompt,
            "unsupported": parameters.unsupported,
        }

    def read(
        self,
        task: Task,
        consumption: Consumption,
        section: Section,
        sentences: Sequence[Sentence],
        quote_of: Quote,
        before: Node | None,
    ) -> Written:
        text = "\n".join(sentence.text for sentence in sentences)
        whole = Quote(quote_of.document_id, quote_of.document_name, section.start, section.end, section.text)
        source = _passage(whole, headings=section.headings)
        if before is None or not before.statements:
            return self._write(task, consumption, text, [source], system=self._system(task))
        said = " ".join(statement.text for statement in before.statements)
        text = f"{UP_TO_HERE[task.language]}{said}{CONTINUED[task.language]}{text}"
        earlier = [_passage(quote) for quote in before.quotes]
        return self._write(
            task, consumption, text, [source, *earlier], system=self._system(task, carries=True)
        )

    def join(self, task: Task, consumption: Consumption, children: Sequence[Node]) -> Written:
        text = "\n\n".join(" ".join(s.text for s in child.statements) for child in children)
        quotes = list(dict.fromkeys(quote for child in children for quote in child.quotes))
        made = self._write(
            task,
            consumption,
            text,
            [_passage(quote) for quote in quotes],
            system=self._system(task, joins=True),
        )
        return replace(
            made, statements=tuple(replace(s, quotes=_holding(s.quotes, quotes)) for s in made.statements)
        )

    def reading_ceiling(self, room_tokens: int, input_tokens: int) -> Ceiling:
        model = self._generator.info().model
        return [
            (model, Stage.PREFILL_UNCACHED, input_tokens + _FRAME_TOKENS + _MOST_PROMPT_TOKENS),
            (model, Stage.DECODE, room_tokens),
            (self._embedder.name, Stage.EMBED, 2 * input_tokens),
        ]

    def joining_ceiling(self, room_tokens: int, input_tokens: int) -> Ceiling:
        return self.reading_ceiling(room_tokens, input_tokens)

    def _system(self, task: Task, *, joins: bool = False, carries: bool = False) -> str:
        return system_text(
            task.parameters,
            task.language,
            room_tokens=task.room_tokens,
            title=task.title,
            joins=joins,
            carries=carries,
        )

    def _write(
        self, task: Task, consumption: Consumption, text: str, sources: Sequence[Passage], *, system: str
    ) -> Written:
        frame = self._tokenizer.chat_frame(has_system=True)
        encode = self._tokenizer.encode
        request = GenerationRequest(
            prompt_token_ids=(
                *frame.head,
                *encode(system),
                *frame.middle,
                *encode(text),
                *encode(ANSWER_LABEL[task.language]),
                *frame.tail,
            ),
            sampling=SamplingParameters(max_tokens=task.room_tokens),
            cache_salt=task.cache_salt,
        )
        said, reason = written(self._generator, request, consumption, task.checkpoint)
        vectors = SentenceVectors(self._embedder)
        statements = attribute(said, task.parameters.prompt, sources, vectors=vectors).statements
        consumption.add(Stage.EMBED, [vectors.take_use()])
        kept = _said_once(statements[:-1] if reason == "length" and len(statements) > 1 else statements)
        if task.parameters.unsupported == "remove":
            kept = [statement for statement in kept if statement.quotes]
        return Written(tuple(kept))


def _said_once(statements: Sequence[Statement]) -> list[Statement]:
    """Statements that say something, without those that repeat an earlier one."""
    kept: list[Statement] = []
    for statement in statements:
        print_ = fingerprint(statement.text)
        if statement.says_something and not any(is_duplicate(print_, fingerprint(k.text)) for k in kept):
            kept.append(statement)
    return kept


def _holding(found: Sequence[Quote], quotes: Sequence[Quote]) -> tuple[Quote, ...]:
    """The whole quotes in which those found stand."""
    return tuple(
        dict.fromkeys(
            quote
            for part in found
            for quote in quotes
            if quote.document_id == part.document_id and quote.start <= part.start and part.end <= quote.end
        )
    )


def _passage(quote: Quote, headings: tuple[str, ...] = ()) -> Passage:
    return Passage(
        document_id=quote.document_id,
        document_name=quote.document_name,
        document_title=quote.document_name,
        start=quote.start,
        end=quote.end,
        first_page=0,
        last_page=0,
        headings=headings,
        text=quote.text,
        score=0.0,
        chunk_ids=(),
        dense_score=None,
        lexical_score=None,
        dense_rank=None,
        lexical_rank=None,
        num_generator_tokens=estimate_tokens(quote.text),
        has_gaps=False,
    )
