"""Answers drawn several times, of which the one counts that most of them are like."""

from __future__ import annotations

from collections.abc import Sequence

from core.precedence import current_precedence
from core.usage import TokenUsage
from generation.agreement import agreement_of
from generation.attempt import Attempt
from generation.attribution import strip_marks
from generation.instructions import REFUSALS
from generation.leading import LeaderFirst
from generation.prompt import Prompt
from generation.quoted import parse_quoted
from generation.samples import draw_samples, sample_requests, samples_json, summed_timings
from inference.protocols import GenerationRequest, Generator
from retrieval.passages import Passage


def is_refusal(text: str) -> bool:
    """Whether the model says, in the words that it was given for that, that it cannot answer."""
    plain = strip_marks(text)
    return any(plain.startswith(refusal.rstrip(".。")) for refusal in REFUSALS)


class SampledWriter:
    """Draws `Question.num_samples` answers. One instance serves all threads of a worker."""

    def __init__(self, *, generator: Generator, leaders: LeaderFirst) -> None:
        self._generator = generator
        self._leaders = leaders

    def write(
        self,
        attempt: Attempt,
        prompt: Prompt,
        request: GenerationRequest,
        question: str,
        passages: Sequence[Passage],
    ) -> tuple[str, str]:
        """What most of several samples say, and why that one ended; all are kept in `attempt.samples`.

        Nothing of their text is published: until all are drawn it is not known which counts.

        Args:
            request: of one of them; with a seed, the others count up from it.
            question: as it is to be understood without its conversation.
            passages: in the order the prompt numbered them.
        """
        info = self._generator.info()
        requests = sample_requests(request, attempt.question.num_samples)
        traced = [attempt.trace.begin(prompt, each, engine=info) for each in requests]
        consumption = attempt.consumption
        current_precedence().give_way()
        with self._leaders.lead(attempt, prompt, engine=info) as lead:

            def on_usage(usage: TokenUsage) -> None:
                consumption.usage = usage
                if usage.completion_tokens:
                    lead.first_token()

            samples = draw_samples(
                self._generator,
                requests,
                on_delta=lambda number, delta: traced[number].add(delta),
                on_usage=on_usage,
                checkpoint=attempt.run.checkpoint,
            )
        consumption.engine = summed_timings(samples)
        attempt.note_cached(samples[0].usage.cached_tokens)
        answers = [_said(attempt, sample.text, passages) for sample in samples]
        agreement = agreement_of(answers, question, vectors=attempt.vectors)
        attempt.samples = samples_json(samples, agreement)
        attempt.trace.answer_generation = len(attempt.trace.generations) - len(samples) + agreement.chosen
        if engine_name := traced[agreement.chosen].engine_name:
            attempt.note("engine", {"name": engine_name})
        chosen = samples[agreement.chosen]
        return chosen.text, chosen.finish_reason


def _said(attempt: Attempt, text: str, passages: Sequence[Passage]) -> str:
    """The answer proper, without marks and quotes; empty for a refusal."""
    answer = parse_quoted(text, passages).answer if attempt.question.mode == "quoted" else text
    return "" if is_refusal(answer) else strip_marks(answer)
