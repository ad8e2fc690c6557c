"""Answers held to a form: generated under it, checked, repaired within a budget, cited value by value.

generate ─▶ form? ─▶ holds what it must? ─▶ days there are? ─▶ numbers in the passages? ─▶ answer
   ▲                                                                     │ no
   └──────── the same prompt, then what was wrong with the reply ◀───────┘
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from accounting.stages import Stage
from core.errors import OutputInvalid, TooLong
from core.settings import AskSettings
from core.usage import TokenUsage
from generation.answer_draft import Draft, ExactText, Statement
from generation.answer_json import usage_json
from generation.attempt import Attempt
from generation.attribution import FEW_WORDS, attribute
from generation.citations import Quote
from generation.constraints import OutputFormat, forced_inclusion
from generation.format_instructions import form_instructions
from generation.instructions import Instructions
from generation.prompt import Prompt
from generation.validation import Finding, SourceIndex, TextValue, check_form, check_support, values_of
from generation.validation.judge import judge
from inference.protocols import Generator, OutputConstraint
from inference.small_model import SmallModel
from retrieval.passages import Passage
from retrieval.term_weights import terms_of
from storage.events import EventBus

_HOW: Final = ("first", "instruction", "forced")


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A prompt and the passages in it, in its order."""

    prompt: Prompt
    passages: tuple[Passage, ...]


LayOut = Callable[[Instructions], LaidOut]
Generate = Callable[[Prompt, OutputConstraint | None], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Try:
    """One generation and what was found wrong with it."""

    text: str
    finish_reason: str
    laid_out: LaidOut
    sources: SourceIndex
    values: tuple[TextValue, ...]
    findings: tuple[Finding, ...]

    @property
    def breaks(self) -> bool:
        return any(finding.breaks for finding in self.findings)


class ConstrainedWriter:
    """Writes answers of questions that have a `format` or `must_include`."""

    def __init__(
        self,
        *,
        settings: AskSettings,
        events: EventBus,
        generator: Generator,
        small_model: SmallModel | None,
        is_brief: bool,
    ) -> None:
        """`small_model` judges where a question asks for validation by model."""
        self._settings = settings
        self._events = events
        self._generator = generator
        self._small_model = small_model
        self._is_brief = is_brief

    def write(self, attempt: Attempt, standalone: str, *, lay_out: LayOut, generate: Generate) -> Draft:
        """The answer, exactly as it was asked for; notes the step `validation`.

        Args:
            lay_out: puts a prompt together with these instructions.
            generate: has the engine write, under a constraint.

        Raises:
            OutputInvalid: the budget ended before a text met what it must. What that took is burned.
        """
        best = self._generate_valid(attempt, standalone, lay_out, generate)
        statements, places = [], []
        for value in best.values:
            quotes = self._quotes(attempt, standalone, value, best)
            statements.append(Statement(value.text, quotes))
            places.append((value.start, value.end))
        attempt.charge_vectors(Stage.EXTRACT)
        warnings = [finding.detail for finding in best.findings]
        nothing_stated = bool(statements) and not any(s.quotes for s in statements)
        is_refused = nothing_stated and attempt.question.unsupported == "remove"
        if is_refused:
            warnings.insert(0, f"Left out, because nothing in the passages states it: {best.text}")
        dropped = [f"Passage {d.id} was left out: {d.reason}." for d in best.laid_out.prompt.dropped]
        return Draft(
            mode=attempt.question.mode,
            outcome="refused" if is_refused else "answered",
            statements=() if is_refused else tuple(statements),
            warnings=(*warnings, *dropped),
            finish_reason=best.finish_reason,
            model=self._generator.info().model,
            exact=None if is_refused else ExactText(best.text, tuple(places)),
        )

    def _generate_valid(self, attempt: Attempt, standalone: str, lay_out: LayOut, generate: Generate) -> _Try:
        question = attempt.question
        trail: list[dict[str, Any]] = []
        best: _Try | None = None
        spent = 0
        for number in range(1 + question.max_repairs):
            before = attempt.consumption.usage
            how, constraint = self._how(question.form, question.must_include, number)
            wrong = None if best is None else (best.text, best.findings)
            try:
                tried = self._try(attempt, standalone, lay_out, generate, constraint, wrong)
            except TooLong as error:
                if best is None:
                    raise
                usage = usage_json(TokenUsage())
                trail.append(
                    {"how": how, "finish_reason": "", "findings": [], "usage": usage, "note": str(error)}
                )
                break  # no room to tell what was wrong: the best so far is the answer
            used = _difference(attempt.consumption.usage, before)
            trail.append(
                {
                    "how": how,
                    "finish_reason": tried.finish_reason,
                    "findings": [finding.as_json() for finding in tried.findings],
                    "usage": usage_json(used),
                }
                | ({"text": tried.text} if tried.findings else {})
            )
            if best is None or _rank(tried) < _rank(best):
                best = tried
                attempt.trace.choose_last(purpose="repair" if number else "answer")
            spent += (used.uncached_tokens + used.completion_tokens) if number else 0
            if not tried.findings or spent >= self._settings.repair_tokens:
                break
        assert best is not None  # there is always a first try
        outcome = "failed" if best.breaks else ("flagged" if best.findings else "passed")
        attempt.note("validation", {"outcome": outcome, "tries": trail, "repair_tokens": spent})
        if best.breaks:
            raise OutputInvalid(
                f"The answer did not come out as asked for in {len(trail)} tries: "
                + " ".join(finding.detail for finding in best.findings),
                remedy="Raise `max_tokens` if it was cut; else ask for less, or of a larger model.",
                num_tries=len(trail),
            )
        if trail[-1] is not trail[0] and best.text != tried.text:
            self._restart(attempt)  # an earlier try is the answer: what streamed since is not
        return best

    def _restart(self, attempt: Attempt) -> None:
        """Have whoever reads the stream throw away the text so far."""
        job = attempt.run.job
        self._events.publish(job.id, "restart", {"attempt": job.attempt, "reason": "repair"})

    def _how(
        self, form: OutputFormat | None, must_include: Sequence[str], number: int
    ) -> tuple[str, OutputConstraint | None]:
        """What the engine is held to in try `number`, from 0: at last to the texts themselves."""
        if form is not None:
            return _HOW[min(number, 1)], form.constraint()
        if number < 2:
            return _HOW[number], None
        return _HOW[2], forced_inclusion(must_include)

    def _try(
        self,
        attempt: Attempt,
        standalone: str,
        lay_out: LayOut,
        generate: Generate,
        constraint: OutputConstraint | None,
        wrong: tuple[str, Sequence[Finding]] | None,
    ) -> _Try:
        question = attempt.question
        instructions = form_instructions(
            question.text, question.form, question.must_include, brief=self._is_brief, wrong=wrong
        )
        laid_out = lay_out(instructions)
        if wrong is not None:
            self._restart(attempt)
        text, finish_reason = generate(laid_out.prompt, constraint)
        sources = SourceIndex(standalone, laid_out.passages)
        values = tuple(values_of(text, question.form))
        findings = check_form(text, finish_reason, question.form, question.must_include)
        if not findings and question.validation != "none":
            findings = check_support(values, sources, standalone)
            if not findings and question.validation == "model":
                findings = self._judged(attempt, standalone, text, laid_out.passages)
        attempt.run.checkpoint()
        return _Try(text, finish_reason, laid_out, sources, values, tuple(findings))

    def _judged(
        self, attempt: Attempt, question: str, text: str, passages: Sequence[Passage]
    ) -> list[Finding]:
        if self._small_model is None:
            return []
        texts = [passage.text for passage in passages]
        verdict = judge(self._small_model, question, text, texts, cache_salt=attempt.tenant_id)
        attempt.consumption.add(Stage.EXTRACT, verdict.uses)
        attempt.note("judge", {"supported": verdict.is_supported, "note": verdict.note})
        if verdict.is_supported is not False:
            return []
        return [Finding("support", "The small model does not find this in the passages.", breaks=False)]

    def _quotes(self, attempt: Attempt, question: str, value: TextValue, tried: _Try) -> tuple[Quote, ...]:
        """What states the value: word for word, else by its words or its meaning; for a choice, that
        which speaks most of the question."""
        hint = f"{value.hint} {question}"
        quote = tried.sources.find(value.text, hint=hint, is_number=value.is_number)
        if quote is not None:
            return (quote,)
        if not value.is_number and len(terms_of(value.text)) >= FEW_WORDS:
            found = attribute(value.text, question, tried.laid_out.passages, vectors=attempt.vectors)
            return tuple(dict.fromkeys(q for s in found.statements for q in s.quotes))
        form = attempt.question.form
        evidence = tried.sources.evidence(question) if form is not None and form.kind == "choice" else None
        return () if evidence is None else (evidence,)


def _difference(after: TokenUsage, before: TokenUsage) -> TokenUsage:
    return TokenUsage(
        after.prompt_tokens - before.prompt_tokens,
        after.cached_tokens - before.cached_tokens,
        after.completion_tokens - before.completion_tokens,
    )


def _rank(tried: _Try) -> tuple[bool, int]:
    return tried.breaks, len(tried.findings)
