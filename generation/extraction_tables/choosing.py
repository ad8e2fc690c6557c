"""A cell chosen among phrases of the document: by rule, or by a model that can only choose."""

from __future__ import annotations

from collections.abc import Sequence

from core.cancellation import Checkpoint
from core.language import is_chinese
from generation.citations import Quote
from generation.consumption import Consumption
from generation.extraction_tables.cells import Cell, chosen_cell, typed_value
from generation.extraction_tables.columns import Column
from generation.extraction_tables.finding import Found
from generation.one_request import written
from generation.validation import SourceIndex
from generation.validation.sources import plain_text
from inference.protocols import (
    ChatTokenizer,
    GenerationRequest,
    Generator,
    OutputConstraint,
    SamplingParameters,
)
from retrieval.extraction import ExtractedSentence
from retrieval.short_answer import ShortAnswer, phrases, ranked_answers
from retrieval.short_answer.asked import Asked
from retrieval.support.quantities import unit_fit

MAX_CANDIDATES = 8
_CHOICE_TOKENS = 64
_NONE = {False: "not stated", True: "未提及"}
_PROMPT = {
    False: "{sentences}\n\n{question} {instructions}\nChoose one: {choices}",
    True: "{sentences}\n\n{question}{instructions}\n从中选一个：{choices}",
}


def choose_by_rule(column: Column, found: Found) -> Cell:
    """The likeliest phrase of the column's type in the best sentences."""
    if not found.passages:
        return Cell(reason="not_found")
    if column.type == "boolean":
        return Cell(reason="needs_model")
    if column.enum:
        return _enumerated(column, found)
    if not found.is_supported:
        return Cell(reason="not_stated")
    candidates = _candidates(column, found.sentences)
    if not candidates:
        return Cell(reason="not_stated")
    cell = _cell(candidates[0], column, found)
    return _listed(cell, column, found) if column.is_list else cell


def choose_by_model(
    column: Column,
    found: Found,
    *,
    generator: Generator,
    tokenizer: ChatTokenizer,
    instructions: str,
    cache_salt: str,
    consumption: Consumption,
    checkpoint: Checkpoint,
) -> Cell:
    """The phrase that the model names, held to the candidates, or to there being none."""
    by_rule = choose_by_rule(column, found)
    if not found.passages or column.is_list:
        return by_rule
    candidates = _candidates(column, found.sentences)
    texts = list(column.enum) or [candidate.text for candidate in candidates]
    if column.type == "boolean":
        texts = ["true", "false"]
    if not texts:
        return by_rule
    han = is_chinese(column.question)
    prompt = _PROMPT[han].format(
        sentences="\n".join(" ".join(s.text.split()) for s in found.sentences),
        question=column.question,
        instructions=instructions,
        choices=" | ".join([*texts, _NONE[han]]),
    )
    choices = [*texts, _NONE[han]]
    chosen = _generate(generator, tokenizer, prompt, choices, cache_salt, consumption, checkpoint)
    if chosen not in texts:
        return Cell(reason="not_stated")
    if column.type == "boolean" or column.enum:
        return _judged(chosen, column, found)
    return _cell(next(c for c in candidates if c.text == chosen), column, found)


def _generate(
    generator: Generator,
    tokenizer: ChatTokenizer,
    prompt: str,
    choices: Sequence[str],
    cache_salt: str,
    consumption: Consumption,
    checkpoint: Checkpoint,
) -> str:
    frame = tokenizer.chat_frame(has_system=False)
    request = GenerationRequest(
        prompt_token_ids=(*frame.head, *frame.middle, *tokenizer.encode(prompt), *frame.tail),
        sampling=SamplingParameters(max_tokens=_CHOICE_TOKENS),
        cache_salt=cache_salt,
        constraint=OutputConstraint("choice", list(choices)),
    )
    return written(generator, request, consumption, checkpoint)[0]


def _candidates(column: Column, sentences: Sequence[ExtractedSentence]) -> list[ShortAnswer]:
    """Phrases that are a value of the column, the likeliest first."""
    kinds: tuple[Asked, ...] = ("time", "year") if column.kind == "time" else (column.kind,)
    found = [
        answer
        for kind in kinds
        for answer in ranked_answers(column.question, sentences, kind=kind, most=4 * MAX_CANDIDATES)
    ]
    return [
        answer
        for answer in found
        if typed_value(answer.text, column) is not None and not _counts_other_things(answer, column)
    ][:MAX_CANDIDATES]


def _counts_other_things(answer: ShortAnswer, column: Column) -> bool:
    """Whether a number is in a unit that the column does not ask for: money where people are counted."""
    return column.kind == "number" and unit_fit(column.question, answer.text) == "wrong"


def _cell(answer: ShortAnswer, column: Column, found: Found) -> Cell:
    sentence = next(
        s
        for s in found.sentences
        if s.document_id == answer.document_id and s.start <= answer.start and answer.end <= s.end
    )
    return chosen_cell(answer.text, answer.start, _quote(sentence, found), column)


def _quote(sentence: ExtractedSentence, found: Found) -> Quote:
    name = found.passages[0].document_name
    return Quote(sentence.document_id, name, sentence.start, sentence.end, sentence.text)


def _listed(first: Cell, column: Column, found: Found) -> Cell:
    """All of the kind in the sentence that the likeliest one stands in."""
    assert first.quote is not None or not first.is_filled
    if first.quote is None:
        return first
    listers = {"number": phrases.numbers, "time": phrases.times, "year": phrases.years}
    lister = listers.get(column.kind)
    if lister is None:
        return first
    values = [typed_value(first.quote.text[a:b], column) for a, b in lister(first.quote.text)]
    kept = list(dict.fromkeys(value for value in values if value is not None))
    return Cell(kept or first.value, first.phrase, first.quote)


def _enumerated(column: Column, found: Found) -> Cell:
    """The one value of the enum that the document's best sentence with any of them has."""
    for sentence in found.sentences:
        plain = plain_text(sentence.text)
        named = [value for value in column.enum if plain_text(value) in plain]
        if len(named) == 1:
            return _judged(named[0], column, found)
    return Cell(reason="not_stated")


def _judged(value: str, column: Column, found: Found) -> Cell:
    """A value with the sentence that names it, else the one that speaks most of the column."""
    sources = SourceIndex(column.question, found.passages)
    hint = f"{column.name} {column.description}"
    quote = (sources.find(value, hint=hint) if column.enum else None) or sources.evidence(hint)
    typed = typed_value(value, column)
    if quote is None:
        return Cell(reason="not_in_document", rejected=value)
    return Cell([typed] if column.is_list else typed, None, quote)
