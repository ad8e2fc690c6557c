"""Answers that the generator writes: lay out the prompt, generate, find what supports it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.stages import Stage
from core.errors import TooLong
from core.precedence import current_precedence
from core.settings import AskSettings
from generation.answer_draft import Draft, Statement
from generation.attempt import Attempt
from generation.attribution import attribute, strip_marks
from generation.constrained_writer import ConstrainedWriter, LaidOut
from generation.instructions import Instructions, instructions_for
from generation.kept_context import kept_text
from generation.leading import LeaderFirst
from generation.material import Material, MaterialPlanner
from generation.prompt import PassageLayout, Prompt, build_prompt
from generation.prompt_passages import prompt_passage
from generation.quoted import parse_quoted, quoted_statements
from generation.sampled_writer import SampledWriter, is_refusal
from generation.sampling import sampling_json
from inference.kv_store.kept_text import KeptText
from inference.protocols import ChatTokenizer, GenerationRequest, Generator, OutputConstraint
from inference.small_model import SmallModel
from retrieval.history.turns import Turn
from retrieval.passages import Passage
from storage.events import EventBus

_FRAME_TOKENS = 400  # instructions, labels and the template's own, at most


@dataclass(frozen=True, slots=True)
class _Written:
    """What the model wrote: the answer proper, all statements with their support, what was left out."""

    answer: str
    statements: tuple[Statement, ...]
    warnings: tuple[str, ...] = ()


class AnswerWriter:
    """Modes `abstractive` and `quoted`. One instance serves all threads of a worker."""

    def __init__(
        self,
        *,
        settings: AskSettings,
        events: EventBus,
        generator: Generator,
        tokenizer: ChatTokenizer,
        material: MaterialPlanner,
        leaders: LeaderFirst,
        is_brief: bool,
        small_model: SmallModel | None = None,
    ) -> None:
        """`is_brief`: the generator is small and gets the plainest prompt."""
        self._constrained = ConstrainedWriter(
            settings=settings,
            events=events,
            generator=generator,
            small_model=small_model,
            is_brief=is_brief,
        )
        self._sampled = SampledWriter(generator=generator, leaders=leaders)
        self._settings = settings
        self._events = events
        self._generator = generator
        self._tokenizer = tokenizer
        self._material = material
        self._leaders = leaders
        self._is_brief = is_brief

    def write(
        self,
        attempt: Attempt,
        standalone: str,
        passages: Sequence[Passage],
        *,
        query_vector: NDArray[np.float32] | None,
        summary: str = "",
        history: Sequence[Turn] = (),
    ) -> Draft:
        """The answer as the model wrote it, each sentence with what supports it.

        What nothing at all supports is a refusal: better unanswered than uncited.

        Args:
            standalone: the question as it is to be understood without its conversation.
            passages: best first; at least one.
            summary, history: of the conversation.

        Raises:
            TooLong: question and answer exceed the window, or the whole document asked for does.
        """
        question = attempt.question
        attempt.note("sampling", sampling_json(question.choice, question.sampling))
        material = self._material.plan(
            attempt,
            standalone,
            passages,
            layout=PassageLayout(
                self._tokenizer, self._tokenizer.chat_frame(has_system=True), self._instructions(attempt)
            ),
            room_tokens=self._room(attempt, standalone, summary),
            query_vector=query_vector,
        )
        excerpts = material.excerpts
        attempt.run.checkpoint()

        def lay_out(instructions: Instructions | None = None) -> LaidOut:
            return self._lay_out(attempt, standalone, material, summary, history, instructions)

        if attempt.question.is_constrained:
            return self._constrained.write(
                attempt,
                standalone,
                lay_out=lay_out,
                generate=lambda prompt, constraint: self._generate(
                    attempt, prompt, kept_text(prompt, excerpts), constraint
                ),
            )
        laid_out = lay_out()
        prompt, included = laid_out.prompt, laid_out.passages
        kept = kept_text(prompt, excerpts)
        if question.num_samples > 1:
            request = self._request(attempt, prompt, kept)
            text, finish_reason = self._sampled.write(attempt, prompt, request, standalone, included)
        else:
            text, finish_reason = self._generate(attempt, prompt, kept)
        written = self._attribute(attempt, text, standalone, included)
        attempt.charge_vectors(Stage.EXTRACT)
        model = self._generator.info().model
        refused = is_refusal(written.answer)
        if refused or not any(statement.quotes for statement in written.statements):
            # What nothing supports is told apart from the answer, as a warning.
            plain = "" if refused else strip_marks(text)
            unfounded = (f"The model wrote, without support: {plain}",) if plain else ()
            return Draft(
                mode=attempt.question.mode,
                outcome="refused",
                warnings=(*unfounded, *written.warnings, *self._warnings(attempt, prompt, finish_reason)),
                finish_reason=finish_reason,
                model=model,
            )
        return Draft(
            mode=attempt.question.mode,
            outcome="answered",
            statements=written.statements,
            warnings=(*written.warnings, *self._warnings(attempt, prompt, finish_reason)),
            finish_reason=finish_reason,
            model=model,
        )

    def _attribute(self, attempt: Attempt, text: str, question: str, passages: Sequence[Passage]) -> _Written:
        if attempt.question.mode != "quoted":
            return _Written(text, attribute(text, question, passages, vectors=attempt.vectors).statements)
        parsed = parse_quoted(text, passages)
        attempt.note("quotes", {"num_verbatim": len(parsed.quotes), "num_dropped": parsed.num_dropped})
        dropped = f"Left out, because it is not in the passages: {parsed.num_dropped} of the model's quotes."
        return _Written(
            parsed.answer,
            quoted_statements(parsed, question, passages, vectors=attempt.vectors),
            (dropped,) if parsed.num_dropped else (),
        )

    def _instructions(self, attempt: Attempt) -> Instructions:
        question = attempt.question
        return instructions_for(question.text, mode=question.mode, brief=self._is_brief)

    def _room(self, attempt: Attempt, standalone: str, summary: str) -> int:
        """Tokens that the window leaves for passages or a whole document."""
        window, max_tokens = self._generator.info().max_model_len, attempt.question.sampling.max_tokens
        if max_tokens >= window:
            raise TooLong(
                f"max_tokens is {max_tokens}, but the model's whole window has {window} tokens.",
                remedy=f"Ask for less: {self._settings.max_answer_tokens} is the default.",
                max_tokens=max_tokens,
                max_model_len=window,
            )
        taken = self._tokenizer.count(standalone) + self._tokenizer.count(summary)
        return max(0, window - max_tokens - taken - self._settings.history_tokens - _FRAME_TOKENS)

    def _lay_out(
        self,
        attempt: Attempt,
        standalone: str,
        material: Material,
        summary: str,
        history: Sequence[Turn],
        instructions: Instructions | None,
    ) -> LaidOut:
        excerpts = material.excerpts
        prompt = self._build_prompt(attempt, standalone, material, summary, history, instructions)
        if not prompt.included:
            window, max_tokens = self._generator.info().max_model_len, attempt.question.sampling.max_tokens
            raise TooLong(
                f"Nothing of {excerpts[0].passage.document_name} fits: the model's window has {window} tokens, "
                f"of which the answer takes {max_tokens} and the question with its frame {prompt.num_tokens}.",
                remedy="Ask for a shorter answer (`max_tokens`), a shorter question, or with `context` `passages`.",
                max_model_len=window,
                max_tokens=max_tokens,
                prompt_tokens=prompt.num_tokens,
            )
        by_id = {excerpt.id: excerpt.passage for excerpt in excerpts}
        return LaidOut(prompt, tuple(by_id[passage.id] for passage in prompt.included))

    def _build_prompt(
        self,
        attempt: Attempt,
        standalone: str,
        material: Material,
        summary: str,
        history: Sequence[Turn],
        instructions: Instructions | None,
    ) -> Prompt:
        window, max_tokens = self._generator.info().max_model_len, attempt.question.sampling.max_tokens
        instructions = instructions or self._instructions(attempt)
        prompt = build_prompt(
            self._tokenizer,
            self._tokenizer.chat_frame(has_system=True),
            instructions=instructions,
            passages=[
                prompt_passage(excerpt.passage, excerpt.text, is_numbered=instructions.is_numbered)
                for excerpt in material.excerpts
            ],
            question=standalone,
            max_prompt_tokens=window - max_tokens,
            summary=summary,
            history=history,
            max_history_tokens=self._settings.history_tokens,
            ranking=material.ranking,
        )
        dropped = [{"id": d.id, "reason": d.reason} for d in prompt.dropped]
        attempt.note("context", {"prompt_tokens": prompt.num_tokens, "dropped": dropped})
        return prompt

    def _request(
        self,
        attempt: Attempt,
        prompt: Prompt,
        kept: KeptText | None,
        constraint: OutputConstraint | None = None,
    ) -> GenerationRequest:
        if kept is not None and self._generator.info().keeps_context:
            attempt.note("context", {"kept_tokens": kept.num_tokens})
        return GenerationRequest(
            prompt_token_ids=prompt.token_ids,
            sampling=attempt.question.sampling,
            cache_salt=attempt.tenant_id,
            request_id=f"{attempt.run.job.id}-{attempt.run.job.attempt}",
            num_logprobs=attempt.trace.num_logprobs,
            kept=kept,
            constraint=constraint,
        )

    def _generate(
        self,
        attempt: Attempt,
        prompt: Prompt,
        kept: KeptText | None,
        constraint: OutputConstraint | None = None,
    ) -> tuple[str, str]:
        """The generated text and why it ended; each delta is published."""
        job, consumption = attempt.run.job, attempt.consumption
        before, engine_before = consumption.usage, consumption.engine
        request = self._request(attempt, prompt, kept, constraint)
        traced = attempt.trace.begin(prompt, request, engine=self._generator.info())
        text, finish_reason = "", ""
        precedence = current_precedence()
        # Not with the lead of a prefix, for which somebody may wait.
        precedence.give_way()
        with (
            self._leaders.lead(attempt, prompt, engine=self._generator.info()) as lead,
            self._generator.stream(request) as deltas,
        ):
            for delta in deltas:
                if delta.engine:
                    attempt.note("engine", {"name": delta.engine})
                consumption.usage = before + delta.usage
                traced.add(delta)
                attempt.run.checkpoint()
                if delta.text or delta.usage.completion_tokens:
                    lead.first_token()
                    precedence.first_token()
                    consumption.first_token_at = consumption.first_token_at or time.monotonic()
                text += delta.text
                finish_reason = delta.finish_reason or finish_reason
                if delta.timings is not None:
                    consumption.engine = engine_before.then(delta.timings)
                if not delta.text:
                    continue
                data = {"text": delta.text, "after": len(text) - len(delta.text)}
                self._events.publish(job.id, "delta", data)
        attempt.note_cached(consumption.usage.cached_tokens - before.cached_tokens)
        return text.strip(), finish_reason

    def _warnings(self, attempt: Attempt, prompt: Prompt, finish_reason: str) -> list[str]:
        warnings = [f"Passage {dropped.id} was left out: {dropped.reason}." for dropped in prompt.dropped]
        if attempt.samples and 2 * len(attempt.samples["clusters"][0]) <= attempt.question.num_samples:
            warnings.append(
                f"Only {len(attempt.samples['clusters'][0])} of {attempt.question.num_samples} samples say this."
            )
        if finish_reason == "length":
            warnings.append(f"The answer was cut at max_tokens={attempt.question.sampling.max_tokens}.")
        if finish_reason == "repetition":
            warnings.append("The generator began to repeat itself and was stopped.")
        return warnings
