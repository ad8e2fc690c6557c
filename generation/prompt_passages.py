"""Which passages go into a prompt whole, and in what order; of the rest only sentences are kept.

A passage that several prompts hold whole has the same token ids in each of them, so the engine
need not compute it again, as long as everything before it is the same as well. Sentences kept for
one question are of use to that question only. So shared passages stand first, byte for byte as
they were sent before, and extraction applies to what comes after them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass

from retrieval.passages import Passage


@dataclass(frozen=True, slots=True)
class PassagePlan:
    """`whole` in the order of the prompt; `tail`, best first, is what extraction may shorten."""

    whole: tuple[Passage, ...]
    tail: tuple[Passage, ...]


def plan_passages(
    passages: Sequence[Passage],
    *,
    sent_whole: Sequence[Sequence[str]],
    found_before: Sequence[Sequence[str]],
    hot_questions: int,
    max_whole_tokens: int,
) -> PassagePlan:
    """Shared passages first, in the order they were sent in; then the hot ones; then the rest.

    Args:
        passages: found for this question, best first.
        sent_whole: ids of the passages that recent prompts began with, in order; the conversation's
            own last prompt first, then the newest.
        found_before: ids of the passages found for each of the recent questions.
        hot_questions: a passage found for so many of them, this one included, will be found again and
            is sent whole; 0: none is.
        max_whole_tokens: generator tokens that whole passages may take together.
    """
    by_id = {passage_id(passage): passage for passage in passages}
    head = max((_leading(sent, by_id.keys()) for sent in sent_whole), key=len, default=())
    counts = Counter(name for found in found_before for name in set(found))
    hot = [name for name in by_id if name not in head and 0 < hot_questions <= counts[name] + 1]
    # A stable order, whatever the question made of their ranks.
    hot.sort(key=lambda name: (by_id[name].document_id, by_id[name].start))
    whole: list[Passage] = []
    left = max_whole_tokens
    for name in (*head, *hot):
        passage = by_id[name]
        if passage.num_generator_tokens > left:
            break  # what follows would not stand where it stood
        whole.append(passage)
        left -= passage.num_generator_tokens
    return PassagePlan(tuple(whole), tuple(p for p in passages if p not in whole))


def passage_id(passage: Passage) -> str:
    """Document and span: the same text wherever it is found again."""
    return f"{passage.document_id}:{passage.start}-{passage.end}"


def _leading(sent: Sequence[str], wanted: Container[str]) -> tuple[str, ...]:
    taken = []
    for name in sent:
        if name not in wanted:
            break
        taken.append(name)
    return tuple(taken)
