"""Summaries made of the documents' own sentences: chosen, not written, and so true to the letter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.stages import Stage
from core.language import is_chinese
from core.usage import ModelUse
from generation.answer_draft import Statement
from generation.citations import Quote
from generation.consumption import Consumption
from generation.orders import is_order
from generation.quotes import estimate_tokens
from generation.summaries.nodes import Node
from generation.summaries.parameters import SummaryParameters
from generation.summaries.sections import Section
from generation.summaries.writing import Ceiling, Task, Written
from inference.protocols import Embedder
from retrieval.near_duplicates import fingerprint, is_duplicate
from retrieval.sentences import Sentence, is_table_row
from retrieval.term_weights import terms_of

REVISION = "1"
"""Changes whenever the same sentences would be chosen differently."""

SECTION_TOKENS = 1500
MOST_CHILDREN = 32
MIN_TERMS = 5
CENTRALITY, COMMON_WORDS, LEAD, ASKED = 0.5, 2.0, 0.5, 2.0
"""What a sentence is chosen by, in standard deviations of each among the candidates.

On 13 texts of SQuALITY, QMSum, GovReport and VCSum with multilingual-e5-small, at the length of their
references: ROUGE-L 0.173, where centrality alone gives 0.153, common words alone 0.164, the lead 0.150.
These weights were chosen on the same texts, among seventeen settings, so the first figure flatters them.
"""

DIVERSITY = {"summary": 0.5, "key_points": 1.0, "changes_since_last": 0.5, "prompt": 0.5}
_ENDS = re.compile("[.!?。！？…;；:：\"'”’」』)）]$")
_BATCH = 64
_PROMPT_TOKENS = 700  # of a caller's own instructions, at most


class ExtractiveWriter:
    """Chooses the sentences that say most of what all of them say, and not the same twice."""

    section_tokens = SECTION_TOKENS

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def recipe(self, parameters: SummaryParameters) -> dict[str, Any]:
        return {
            "writer": "extractive",
            "revision": f"{REVISION}:{self._embedder.revision}",
            "diversity": DIVERSITY[parameters.style],
            "prompt": parameters.prompt,
        }

    def most_children(self, room_tokens: int) -> int:
        return MOST_CHILDREN

    def read(
        self,
        task: Task,
        consumption: Consumption,
        section: Section,
        sentences: Sequence[Sentence],
        quote_of: Quote,
        before: Node | None,
    ) -> Written:
        telling = telling_sentences(section.text, sentences)
        statements = [_statement(sentence, section, quote_of) for sentence in telling]
        vectors = self._embed(task, consumption, [statement.text for statement in statements])
        if before is not None and before.statements:
            statements = [*before.statements, *statements]
            vectors = np.concatenate([before.vectors, vectors]) if len(vectors) else before.vectors
        return self._chosen(task, consumption, statements, vectors)

    def join(self, task: Task, consumption: Consumption, children: Sequence[Node]) -> Written:
        statements = [statement for child in children for statement in child.statements]
        told = [child.vectors for child in children if child.statements]
        vectors = np.concatenate(told) if told else np.empty((0, 0), dtype=np.float32)
        return self._chosen(task, consumption, statements, vectors)

    def reading_ceiling(self, room_tokens: int, input_tokens: int) -> Ceiling:
        return [(self._embedder.name, Stage.EMBED, _most_embedded(input_tokens))]

    def joining_ceiling(self, room_tokens: int, input_tokens: int) -> Ceiling:
        return [(self._embedder.name, Stage.EMBED, _PROMPT_TOKENS)]

    def _chosen(
        self,
        task: Task,
        consumption: Consumption,
        statements: Sequence[Statement],
        vectors: NDArray[np.float32],
    ) -> Written:
        chosen = choose_sentences(
            [statement.text for statement in statements],
            vectors,
            room_tokens=task.room_tokens,
            diversity=DIVERSITY[task.parameters.style],
            asked=self._asked(task, consumption),
        )
        return Written(tuple(statements[i] for i in chosen), vectors[chosen])

    def _asked(self, task: Task, consumption: Consumption) -> NDArray[np.float32] | None:
        if not task.parameters.prompt:
            return None
        embedded = self._embedder.embed_queries([task.parameters.prompt])
        self._spend(consumption, sum(embedded.num_tokens), embedded.seconds)
        asked: NDArray[np.float32] = embedded.vectors[0]
        return asked

    def _embed(self, task: Task, consumption: Consumption, texts: Sequence[str]) -> NDArray[np.float32]:
        """(num_texts, dimension)"""
        vectors = [np.empty((0, self._embedder.dimension), dtype=np.float32)]
        for i in range(0, len(texts), _BATCH):
            embedded = self._embedder.embed_passages(texts[i : i + _BATCH])
            self._spend(consumption, sum(embedded.num_tokens), embedded.seconds)
            vectors.append(embedded.vectors)
            task.checkpoint()
        return np.concatenate(vectors)

    def _spend(self, consumption: Consumption, num_tokens: int, seconds: float) -> None:
        use = ModelUse(self._embedder.name, self._embedder.revision, num_tokens=num_tokens, seconds=seconds)
        consumption.add(Stage.EMBED, [use])


def telling_sentences(text: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Those of the text's sentences that can stand alone: no rows of tables, headings, asides, or orders to
    the reader. Where there are none, whatever has words."""
    before = [text[max(0, sentence.start - 200) : sentence.start] for sentence in sentences]
    spoken = [
        sentence
        for sentence, context in zip(sentences, before, strict=True)
        if terms_of(sentence.text) and not is_order(sentence.text, before=context)
    ]
    telling = [
        sentence
        for sentence in spoken
        if len(terms_of(sentence.text)) >= MIN_TERMS
        and _ENDS.search(sentence.text)
        and not is_table_row(sentence.text)
    ]
    return telling or spoken


def choose_sentences(
    texts: Sequence[str],
    vectors: NDArray[np.float32],
    *,
    room_tokens: int,
    diversity: float,
    asked: NDArray[np.float32] | None = None,
) -> list[int]:
    """Which of `texts` to keep, in their order: at least one, if there is any.

    Greedy by maximal marginal relevance. Each score, and the likeness to what was chosen, is in standard
    deviations among the candidates, so that they add up whatever the embedder's scale. Tokens are
    counted as a model that speaks the language would.

    Args:
        vectors: (num_texts, dimension), L2-normalized.
        asked: the vector of what is wanted.
    """
    if not texts:
        return []
    scores = _scores(texts, vectors, asked)
    alike = vectors @ vectors.T
    spread = float(alike.std()) or 1.0
    likeness = np.zeros(len(texts), dtype=np.float32)
    sizes = np.array([estimate_tokens(text) for text in texts])
    is_open = np.ones(len(texts), dtype=bool)
    chosen: list[int] = []
    room = room_tokens
    while is_open.any():
        fits = is_open & (sizes <= room) if chosen else is_open
        if not fits.any():
            break
        best = int(np.argmax(np.where(fits, scores - diversity * likeness, -np.inf)))
        is_open[best] = False
        if any(is_duplicate(fingerprint(texts[best]), fingerprint(texts[i])) for i in chosen):
            continue
        chosen.append(best)
        room -= int(sizes[best])
        likeness = np.maximum(likeness, (alike[best] - alike.mean()) / spread)
    return sorted(chosen)


def _scores(
    texts: Sequence[str], vectors: NDArray[np.float32], asked: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    scores = (
        CENTRALITY * _standardized(vectors @ vectors.mean(axis=0))
        + COMMON_WORDS * _standardized(_common_words(texts))
        + LEAD * _standardized(1.0 / np.sqrt(1.0 + np.arange(len(texts), dtype=np.float32)))
    )
    asked_for: NDArray[np.float32] = (
        scores if asked is None else scores + ASKED * _standardized(vectors @ asked)
    )
    return asked_for


def _common_words(texts: Sequence[str]) -> NDArray[np.float32]:
    """How much each text has of the words that many of them have."""
    words = [terms_of(text) for text in texts]
    frequency = Counter(word for each in words for word in each)
    total = np.log1p(len(texts))
    return np.array(
        [
            sum(np.log1p(frequency[word] - 1) for word in each) / total / np.sqrt(max(1, len(each)))
            for each in words
        ],
        dtype=np.float32,
    )


def _standardized(values: NDArray[np.float32]) -> NDArray[np.float32]:
    spread = float(values.std())
    standardized: NDArray[np.float32] = (values - values.mean()) / (spread if spread > 1e-9 else 1.0)
    return standardized


def _most_embedded(input_tokens: int) -> int:
    """Tokens of the embedder for so many of the generator's, each sentence with its own frame."""
    return 2 * input_tokens + _PROMPT_TOKENS


def _statement(sentence: Sentence, section: Section, quote_of: Quote) -> Statement:
    start, end = section.start + sentence.start, section.start + sentence.end
    quote = Quote(quote_of.document_id, quote_of.document_name, start, end, sentence.text)
    return Statement(_in_one_line(sentence.text), (quote,))


def _in_one_line(text: str) -> str:
    """White space as one blank; where the line was broken between Chinese characters, as none."""
    if is_chinese(text):
        return re.sub(r"(?<=[^\x00-\xff])\s+(?=[^\x00-\xff])", "", " ".join(text.split()))
    return " ".join(text.split())
