"""What the answers of `bench answers` are worth: one score a system and question, and their sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.answer_sets import AnswerSet, SetQuestion
from bench.peers import PEERS
from bench.recording_proxy import EngineCall, RecordingProxy
from bench.report import BenchTable, Figure
from evaluation.metrics import contains_answer, exact_match, token_f1
from evaluation.paired_bootstrap import paired_bootstrap
from evaluation.text import strip_citation_marks

OURS = "ours"
SYSTEMS = (OURS, *PEERS)
LANGUAGES = (("en", "English"), ("zh", "Chinese"), ("", "All questions"))
"""With a title each; the empty one stands for both."""

_WRITTEN = "ours (abstractive)"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a system answered. `written`: what ours writes when told to; of a peer the same text.

    `error`: why there is no answer. `num_dropped`: passages left out for want of room.
    """

    question: str
    text: str
    written: str
    error: str = ""
    num_dropped: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """One system on one question. `sent_prompt`: False where the question alone was scored."""

    set_name: str
    language: str
    system: str
    question: str
    golds: tuple[str, ...]
    answer: str
    written: str
    f1: float
    em: float
    contained: float
    written_f1: float
    gold_logprob: float
    prompt_tokens: int
    completion_tokens: int
    sent_prompt: bool
    num_dropped: int
    error: str


def score(
    proxy: RecordingProxy, system: str, answer_set: AnswerSet, question: SetQuestion, reply: Reply
) -> Score:
    """What the reply and the calls noted for its question are worth."""
    calls = proxy.calls(question.text)
    sent = [call for call in calls if call.gold_logprob is not None]
    last = sent[-1] if sent else question_alone(proxy, question)
    text, written = strip_citation_marks(reply.text), strip_citation_marks(reply.written)
    return Score(
        set_name=answer_set.name,
        language=answer_set.language,
        system=system,
        question=question.text,
        golds=question.answers,
        answer=text,
        written=written,
        f1=token_f1(text, question.answers),
        em=exact_match(text, question.answers),
        contained=contains_answer(text, question.answers),
        written_f1=token_f1(written, question.answers),
        gold_logprob=last.gold_logprob or 0.0,
        prompt_tokens=sum(call.prompt_tokens for call in calls) or last.prompt_tokens,
        completion_tokens=sum(call.completion_tokens for call in calls),
        sent_prompt=bool(sent),
        num_dropped=reply.num_dropped,
        error=reply.error,
    )


def question_alone(proxy: RecordingProxy, question: SetQuestion) -> EngineCall:
    """The call of a system that found nothing and asks the model all the same."""
    prompt = proxy.chat_prompt(question.text)
    logprob = proxy.gold_logprob(prompt, question.answers[0])
    return EngineCall(len(prompt), 0, logprob, tuple(prompt))


def figures(scores: Sequence[Score], names: Sequence[str]) -> dict[str, Figure]:
    """Means over questions, by the benchmark's own keys."""
    found: dict[str, Figure] = {}
    for name in names:
        own = [one for one in scores if one.system == name]
        for key, value in _MEASURES.items():
            found[f"{key}_{name}"] = mean([value(one) for one in own])
    return found


_MEASURES: Mapping[str, Callable[[Score], float]] = {
    "f1": lambda one: one.f1,
    "em": lambda one: one.em,
    "gold_logprob": lambda one: one.gold_logprob,
    "prompt_tokens": lambda one: float(one.prompt_tokens),
}


def differences(scores: Sequence[Score], names: Sequence[str]) -> dict[str, Any]:
    """Ours less each peer on the same questions, by language, with 95 % intervals."""
    if OURS not in names:
        return {}
    by_system = {name: _aligned(scores, name) for name in names}
    found: dict[str, Any] = {}
    for language, title in LANGUAGES:
        for peer in names:
            if peer == OURS:
                continue
            for key, value in _MEASURES.items():
                pairs = [
                    (value(a), value(b))
                    for a, b in zip(by_system[OURS], by_system[peer], strict=True)
                    if language in ("", a.language)
                ]
                if pairs:
                    ours, theirs = zip(*pairs, strict=True)
                    found[f"{title}: {key} ours - {peer}"] = asdict(paired_bootstrap(theirs, ours))
    return found


def _aligned(scores: Sequence[Score], system: str) -> list[Score]:
    own = [one for one in scores if one.system == system]
    return sorted(own, key=lambda one: (one.set_name, one.question))


def of_language(scores: Sequence[Score], language: str) -> list[Score]:
    """Those of one language; of all, where it is empty."""
    return [one for one in scores if language in ("", one.language)]


def table_of(scores: Sequence[Score], names: Sequence[str], title: str) -> BenchTable:
    """A row a system, and one for what ours writes when told to."""
    rows = []
    for name in names:
        own = [one for one in scores if one.system == name]
        rows.append(_row(name, own))
        if name == OURS:
            rows.append(_row(_WRITTEN, [_as_written(one) for one in own]))
    number = len(scores) // max(1, len(names))
    return BenchTable(
        f"{title}: {number} questions",
        ("system", "F1", "EM", "contains", "log p(gold)", "prompt tokens", "no prompt", "passages dropped"),
        rows,
    )


def _as_written(one: Score) -> Score:
    return replace(
        one,
        f1=one.written_f1,
        em=exact_match(one.written, one.golds),
        contained=contains_answer(one.written, one.golds),
    )


def _row(name: str, scores: Sequence[Score]) -> tuple[str, ...]:
    return (
        name,
        f"{mean([one.f1 for one in scores]):.3f}",
        f"{mean([one.em for one in scores]):.3f}",
        f"{mean([one.contained for one in scores]):.3f}",
        f"{mean([one.gold_logprob for one in scores]):.3f}",
        f"{mean([float(one.prompt_tokens) for one in scores]):,.0f}",
        str(sum(not one.sent_prompt for one in scores)),
        str(sum(one.num_dropped for one in scores)),
    )


def mean(values: Sequence[float]) -> float:
    """0 of nothing."""
    return sum(values) / len(values) if values else 0.0
