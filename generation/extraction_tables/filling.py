"""A row written by the model under the table's schema, held against the document, repaired."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.cancellation import Checkpoint
from core.language import is_chinese
from core.settings import AskSettings
from generation.constraints import OutputFormat
from generation.consumption import Consumption
from generation.extraction_tables.cells import REASONS, Cell, checked_cell
from generation.extraction_tables.columns import Column, filling_schema
from generation.format_instructions import form_instructions
from generation.one_request import written
from generation.prompt import build_prompt
from generation.segments import PromptPassage
from generation.validation import Finding, SourceIndex, check_form
from inference.protocols import ChatTokenizer, GenerationRequest, Generator, SamplingParameters
from retrieval.passages import Passage

_TOKENS_PER_CELL = 60
_FRAME_TOKENS = 64
_ASK = {
    False: "Fill in the fields from the passages; null where they do not say it.",
    True: "根据段落填写各字段；段落没有说明的填 null。",
}


@dataclass(frozen=True, slots=True)
class Filled:
    """`trail` has each try: what was wrong with it and the tokens that it took."""

    cells: Mapping[str, Cell]
    trail: list[dict[str, Any]]


class RowFiller:
    """One instance serves all threads of a worker."""

    def __init__(
        self, *, settings: AskSettings, generator: Generator, tokenizer: ChatTokenizer, is_brief: bool
    ) -> None:
        self._settings = settings
        self._generator = generator
        self._tokenizer = tokenizer
        self._is_brief = is_brief

    def fill(
        self,
        columns: Sequence[Column],
        schema: Mapping[str, Any],
        passages: Sequence[Passage],
        *,
        instructions: str,
        max_repairs: int,
        cache_salt: str,
        consumption: Consumption,
        checkpoint: Checkpoint,
    ) -> Filled:
        """Every column's cell. What a try leaves unfounded is asked for again, after the same prefix."""
        if not passages:
            return Filled({column.name: Cell(reason="not_found") for column in columns}, [{"how": "fill"}])
        cells: dict[str, Cell] = {}
        trail: list[dict[str, Any]] = []
        wanted, spent = list(columns), 0
        wrong: tuple[str, list[Finding]] | None = None
        for number in range(1 + max_repairs):
            before = consumption.usage
            form = OutputFormat("json_schema", filling_schema(schema, [column.name for column in wanted]))
            text, reason, shown = self._write(
                form, wanted, passages, instructions, wrong, cache_salt, consumption, checkpoint
            )
            breaches = check_form(text, reason, form, ())
            filled = {} if breaches else json.loads(text)
            sources = SourceIndex(" ".join(column.question for column in wanted), shown)
            tried = {
                c.name: checked_cell(filled.get(c.name), c, sources)
                if not breaches
                else Cell(reason="not_stated")
                for c in wanted
            }
            cells |= {name: cell for name, cell in tried.items() if cell.is_filled or name not in cells}
            findings = breaches or [
                Finding("support", f"{name}: {cell.rejected!r}: {REASONS[cell.reason or '']}.", breaks=False)
                for name, cell in tried.items()
                if cell.rejected
            ]
            used = consumption.usage
            step = {
                "prompt_tokens": used.prompt_tokens - before.prompt_tokens,
                "cached_tokens": used.cached_tokens - before.cached_tokens,
                "completion_tokens": used.completion_tokens - before.completion_tokens,
            }
            trail.append(
                {"how": "repair" if number else "first", "usage": step}
                | {"findings": [finding.as_json() for finding in findings]}
            )
            spent += number and step["prompt_tokens"] - step["cached_tokens"] + step["completion_tokens"]
            if not findings or spent >= self._settings.repair_tokens:
                break
            wrong = text, findings
            wanted = wanted if breaches else [c for c in wanted if tried[c.name].rejected]
        return Filled(cells, trail)

    def _write(
        self,
        form: OutputFormat,
        columns: Sequence[Column],
        passages: Sequence[Passage],
        instructions: str,
        wrong: tuple[str, list[Finding]] | None,
        cache_salt: str,
        consumption: Consumption,
        checkpoint: Checkpoint,
    ) -> tuple[str, str, list[Passage]]:
        """The text, why it ended, and the passages that had room."""
        han = is_chinese(" ".join(column.question for column in columns))
        question = f"{_ASK[han]} {instructions}".strip()
        told = form_instructions(question, form, (), brief=self._is_brief, wrong=wrong)
        window = self._generator.info().max_model_len
        max_tokens = min(window // 3, _FRAME_TOKENS + _TOKENS_PER_CELL * len(columns))
        prompt = build_prompt(
            self._tokenizer,
            self._tokenizer.chat_frame(has_system=True),
            instructions=told,
            passages=[PromptPassage(str(i), "", passage.text) for i, passage in enumerate(passages)],
            question=question,
            max_prompt_tokens=window - max_tokens,
        )
        request = GenerationRequest(
            prompt_token_ids=prompt.token_ids,
            sampling=SamplingParameters(max_tokens=max_tokens),
            cache_salt=cache_salt,
            constraint=form.constraint(),
        )
        text, reason = written(self._generator, request, consumption, checkpoint)
        return text, reason, [passages[int(p.id)] for p in prompt.included]
