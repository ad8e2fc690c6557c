"""From ranked chunks to passages: adjoining chunks of a document become one, repeats are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.ids import ChunkId, DocumentId
from retrieval.fusion import FusedChunk
from retrieval.near_duplicates import Fingerprint, fingerprint, is_duplicate, repeats
from storage.chunks import LiveChunk

RankedChunk = tuple[FusedChunk, LiveChunk]


@dataclass(frozen=True, slots=True)
class Passage:
    """What is retrieved, packed and cited: characters `start` to `end` of a document.

    `score` is the fused one of its best chunk; `dense_score` (inner product), `lexical_score`
    (BM25) and the ranks (from 1) are the best among its chunks, None where no index named it.
    """

    document_id: DocumentId
    document_name: str
    document_title: str
    start: int
    end: int
    first_page: int
    last_page: int
    headings: tuple[str, ...]
    text: str
    score: float
    chunk_ids: tuple[ChunkId, ...]
    dense_score: float | None
    lexical_score: float | None
    dense_rank: int | None
    lexical_rank: int | None
    num_generator_tokens: int
    has_gaps: bool  # white space that chunking dropped stands as blanks in `text`


@dataclass(frozen=True, slots=True)
class MergedPassages:
    """Passages, best first, and how many chunks were left out because a better one says the same."""

    passages: list[Passage]
    num_duplicates: int


def merge_passages(ranked: Iterable[RankedChunk], *, num_passages: int, max_tokens: int) -> MergedPassages:
    """The best passages, best first, of at most `max_tokens` generator tokens together.

    Chunks are taken in the order given until there are `num_passages` passages; one that stands
    next to a taken chunk of its document joins it. A chunk that does not fit is passed over. The
    first is always taken, so that a small budget gives one passage rather than none.

    A chunk that says nothing which a taken one does not (`is_duplicate`) is left out. One that half
    repeats a taken one waits until all others have had their turn: many documents that say the same
    must not keep out the one that says something else.
    """
    choice = _Choice(num_passages, max_tokens)
    for pair in ranked:
        if not choice.offer(pair):
            break
    for pair in choice.waiting:
        if not choice.offer(pair, may_repeat=True):
            break
    passages = sorted(map(_passage, choice.groups), key=lambda p: (-p.score, p.document_id, p.start))
    return MergedPassages(passages, choice.num_duplicates)


class _Choice:
    """Chunks taken so far, in groups that each become a passage, and those that wait."""

    def __init__(self, num_passages: int, max_tokens: int) -> None:
        self.groups: list[list[RankedChunk]] = []
        self.waiting: list[RankedChunk] = []
        self.num_duplicates = 0
        self._num_passages = num_passages
        self._tokens_left = max_tokens
        self._taken: list[Fingerprint] = []

    def offer(self, pair: RankedChunk, *, may_repeat: bool = False) -> bool:
        """Take the chunk, join it to its neighbours, let it wait or leave it out; False once full."""
        chunk = pair[1]
        own = fingerprint(chunk.text)
        if any(is_duplicate(own, other) for other in self._taken):
            self.num_duplicates += 1
            return True
        if self.groups and chunk.num_generator_tokens > self._tokens_left:
            return True
        touching = [group for group in self.groups if _touches(group, chunk)]
        if not touching and not may_repeat and any(repeats(own, other) for other in self._taken):
            self.waiting.append(pair)
            return True
        if not touching and len(self.groups) >= self._num_passages:
            return False
        joined = [pair, *(member for group in touching for member in group)]
        self.groups = [group for group in self.groups if group not in touching]
        self.groups.append(joined)
        self._tokens_left -= chunk.num_generator_tokens
        self._taken.append(own)
        return True


def _touches(group: Sequence[RankedChunk], chunk: LiveChunk) -> bool:
    return any(
        other.document_id == chunk.document_id and abs(other.position - chunk.position) == 1
        for _, other in group
    )


def _passage(group: Sequence[RankedChunk]) -> Passage:
    chunks = sorted((chunk for _, chunk in group), key=lambda chunk: chunk.position)
    fused = [hit for hit, _ in group]
    first, text, has_gaps = chunks[0], chunks[0].text, False
    end = first.end
    for chunk in chunks[1:]:
        gap = chunk.start - end
        has_gaps = has_gaps or gap > 0
        # Overlap is said once; where white space was dropped blanks keep the offsets right.
        text += " " * gap + chunk.text if gap > 0 else chunk.text[-gap:]
        end = max(end, chunk.end)
    return Passage(
        document_id=first.document_id,
        document_name=first.document_name,
        document_title=first.document_title,
        start=first.start,
        end=end,
        first_page=min(chunk.first_page for chunk in chunks),
        last_page=max(chunk.last_page for chunk in chunks),
        headings=first.headings,
        text=text,
        score=max(hit.score for hit in fused),
        chunk_ids=tuple(chunk.id for chunk in chunks),
        dense_score=max((h.dense_score for h in fused if h.dense_score is not None), default=None),
        lexical_score=max((h.lexical_score for h in fused if h.lexical_score is not None), default=None),
        dense_rank=min((h.dense_rank for h in fused if h.dense_rank is not None), default=None),
        lexical_rank=min((h.lexical_rank for h in fused if h.lexical_rank is not None), default=None),
        num_generator_tokens=sum(chunk.num_generator_tokens for chunk in chunks),
        has_gaps=has_gaps,
    )
