"""Do passages' keys and values, stored once and moved to where they are wanted, spoil answers?

An experiment (ADR 16), offline and without vLLM. Each passage's rows are computed once behind the
prompt's head; in the prompt of a question with three passages they are rotated to their places, and
a share of their tokens is computed anew: the first of each passage (as EPIC does), or those whose
rows deviate most (CacheBlend). Against the full prefill of the same prompt: log-probability of the
gold answer for each of its tokens, and F1 of what is written greedily.

`--extra questions=N`, `threads=N`, `seconds=N` (no further question after so long), `generator=NAME`.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.report import BenchOptions, BenchResult, BenchTable
from bench.reuse_model import KvRows, ReuseModel
from core.errors import NotFound
from evaluation.metrics import token_f1
from evaluation.paired_bootstrap import Difference, paired_bootstrap
from generation.instructions import instructions_for
from generation.prompt import Prompt, build_prompt
from generation.segments import PromptPassage
from inference.prepare import model_path
from inference.registry import find_model
from inference.tokenizers import HuggingFaceTokenizer

_NUM_PASSAGES = 3
_MAX_ANSWER_TOKENS = 12
_MAX_PASSAGE_TOKENS = {"en": 200, "zh": 320}
_MAX_GOLD_TOKENS = 24
_SHARES = (0.1, 0.2)
_MOST_HARM = {"logprob": 0.05, "f1": 0.02}  # nats for each token of the gold answer; F1


@dataclass(frozen=True, slots=True)
class _Case:
    """A question with its paragraph and two of other articles, in a drawn order."""

    language: str
    question: str
    golds: tuple[str, ...]
    passages: tuple[PromptPassage, ...]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """`logprob`: of the gold answer, mean over its tokens. `computed`: share of prompt tokens."""

    logprob: float
    f1: float
    computed: float


def run(options: BenchOptions) -> BenchResult:
    """Differences to the full prefill, each with its interval, and whether all of it lies inside."""
    num_questions = int(options.extra.get("questions", 6 if options.quick else 60))
    torch.set_num_threads(int(options.extra.get("threads", "2")))
    spec = find_model(options.extra.get("generator", "smollm2-135m-instruct"), role="generator")
    folder = model_path(spec, options.model_dir)
    tokenizer = HuggingFaceTokenizer(folder)
    desk = _Desk(ReuseModel(folder), tokenizer)
    cases = _cases(options.data_dir, num_questions, tokenizer.count)
    outcomes: dict[str, list[_Outcome]] = defaultdict(list)
    ends_at = time.monotonic() + float(options.extra.get("seconds", "inf"))
    for case in cases:
        if time.monotonic() > ends_at:
            break
        for way, outcome in desk.answer(case).items():
            outcomes[way].append(outcome)
    cases = cases[: len(outcomes["full"])]
    reused = [way for way in outcomes if way not in ("full", "without_passages")]
    differences = {
        way: {what: _difference(outcomes, way, what) for what in ("logprob", "f1")}
        for way in outcomes
        if way != "full"
    }
    return BenchResult(
        name="position_reuse",
        config={"num_questions": len(cases), "num_passages": _NUM_PASSAGES, "model": spec.name},
        figures={
            **{
                f"{what}_difference_{way}": differences[way][what].mean
                for way in reused
                for what in ("logprob", "f1")
            },
            **{f"inside_interval_{way}": _is_inside(differences[way]) for way in reused},
            **{f"shown_harmless_{way}": _is_shown_harmless(differences[way]) for way in reused},
        },
        details={
            "differences": {
                way: {what: [d.mean, d.low, d.high] for what, d in each.items()}
                for way, each in differences.items()
            },
            "by_language": _by_language(cases, outcomes),
            "computed_share": {way: _mean(outcomes[way], "computed") for way in outcomes},
            "full": {what: _mean(outcomes["full"], what) for what in ("logprob", "f1")},
        },
        tables=[_table(outcomes, differences)],
    )


class _Desk:
    """Answers cases every way."""

    def __init__(self, model: ReuseModel, tokenizer: HuggingFaceTokenizer) -> None:
        self._model = model
        self._tokenizer = tokenizer

    def answer(self, case: _Case) -> dict[str, _Outcome]:
        prompt = self._prompt(case, case.passages)
        spans = _passage_spans(prompt)
        head = spans[0][0]
        gold = self._tokenizer.encode(case.golds[0])[:_MAX_GOLD_TOKENS]
        tokens = torch.tensor([*prompt.token_ids, *gold])
        stored = [self._alone(tokens[:head], tokens[start:end]) for start, end in spans]
        reused = torch.cat([torch.arange(start, end) for start, end in spans])
        fixed = torch.tensor([i for i in range(len(tokens)) if not any(s <= i < e for s, e in spans)])

        def moved() -> KvRows:
            rows = self._model.empty(len(tokens) + _MAX_ANSWER_TOKENS)
            for (start, _), passage in zip(spans, stored, strict=True):
                rows.put(start, self._model.rotate(passage, start - head))
            return rows

        def firsts(share: float) -> torch.Tensor:
            parts = [torch.arange(start, start + round(share * (end - start))) for start, end in spans]
            return torch.cat((fixed, *parts)).sort().values

        def fill_first(rows: KvRows, share: float) -> torch.Tensor:
            return self._model.compute(tokens, rows, firsts(share))

        def fill_deviating(rows: KvRows, share: float) -> torch.Tensor:
            return self._model.compute_deviating(tokens, rows, fixed, reused, share)

        ways: dict[str, Callable[[KvRows], torch.Tensor]] = {
            "full": lambda rows: self._model.compute(tokens, rows, torch.arange(len(tokens))),
            "moved": lambda rows: self._model.compute(tokens, rows, fixed),
        }
        for share in _SHARES:
            percent = round(100 * share)
            ways[f"first_{percent}"] = partial(fill_first, share=share)
            ways[f"deviating_{percent}"] = partial(fill_deviating, share=share)
        outcomes = {}
        for way, fill in ways.items():
            rows = moved()
            computed = 1.0 if way == "full" else (len(fixed) + _share_of(way) * len(reused)) / len(tokens)
            outcomes[way] = self._outcome(case, tokens, len(gold), rows, fill(rows), computed)
        outcomes["without_passages"] = self._without_passages(case, gold)
        return outcomes

    def _alone(self, head: torch.Tensor, passage: torch.Tensor) -> KvRows:
        """The passage's rows behind the head, as a store would keep them."""
        tokens = torch.cat((head, passage))
        rows = self._model.empty(len(tokens))
        self._model.compute(tokens, rows, torch.arange(len(tokens)))
        return rows.span(len(head), len(tokens))

    def _outcome(
        self,
        case: _Case,
        tokens: torch.Tensor,
        num_gold: int,
        rows: KvRows,
        hidden: torch.Tensor,
        computed: float,
    ) -> _Outcome:
        """From the hidden states of the sequence's end, which is the gold answer."""
        logits = self._model.logits(hidden[-num_gold - 1 :])
        logprobs = torch.log_softmax(logits[:-1], dim=-1)
        gold_logprob = logprobs.gather(1, tokens[-num_gold:, None]).mean()
        text = self._decode(tokens[:-num_gold], rows, logits[0])
        return _Outcome(float(gold_logprob), token_f1(text, case.golds), computed)

    def _decode(self, tokens: torch.Tensor, rows: KvRows, logits: torch.Tensor) -> str:
        written: list[int] = []
        end_ids = self._end_ids()
        while len(written) < _MAX_ANSWER_TOKENS and (token := int(logits.argmax())) not in end_ids:
            written.append(token)
            tokens = torch.cat((tokens, torch.tensor([token])))
            hidden = self._model.compute(tokens, rows, torch.tensor([len(tokens) - 1]))
            logits = self._model.logits(hidden)[0]
        return self._tokenizer.decode(written)

    def _end_ids(self) -> set[int]:
        """The template's end of a turn: what follows the user's content."""
        return set(self._tokenizer.chat_frame(has_system=True).tail[:1])

    def _without_passages(self, case: _Case, gold: Sequence[int]) -> _Outcome:
        prompt = self._prompt(case, ())
        tokens = torch.tensor([*prompt.token_ids, *gold])
        rows = self._model.empty(len(tokens) + _MAX_ANSWER_TOKENS)
        hidden = self._model.compute(tokens, rows, torch.arange(len(tokens)))
        return self._outcome(case, tokens, len(gold), rows, hidden, 1.0)

    def _prompt(self, case: _Case, passages: Sequence[PromptPassage]) -> Prompt:
        return build_prompt(
            self._tokenizer,
            self._tokenizer.chat_frame(has_system=True),
            instructions=instructions_for(case.question, mode="abstractive", brief=True),
            passages=passages,
            question=case.question,
            max_prompt_tokens=4000,
        )


def _share_of(way: str) -> float:
    return int(way.rpartition("_")[2]) / 100 if "_" in way else 0.0


def _passage_spans(prompt: Prompt) -> list[tuple[int, int]]:
    spans, start = [], 0
    for segment in prompt.segments:
        if segment.source_ids:
            spans.append((start, start + len(segment)))
        start += len(segment)
    return spans


def _cases(data_dir: Path, number: int, count: Callable[[str], int]) -> list[_Case]:
    """English and Chinese in turn, drawn from XQuAD by a fixed seed."""
    folder = data_dir / "ir-xquad"
    if not folder.is_dir():
        raise NotFound(f"There is no evaluation set {folder}.", remedy="Pass --data or set LONGLEAF_DATA.")
    cases: dict[str, list[_Case]] = {"en": [], "zh": []}
    for language in ("en", "zh"):
        dice = random.Random(7)
        corpus = _rows(folder / f"corpus.{language}.jsonl")
        paragraphs = {row["id"]: row for row in corpus if count(row["text"]) <= _MAX_PASSAGE_TOKENS[language]}
        questions = {row["id"]: row for row in _rows(folder / f"queries.{language}.jsonl")}
        judged = (folder / f"qrels.{language}.tsv").read_text(encoding="utf-8").split("\n")[1:]
        pairs = [line.split("\t")[:2] for line in judged if line]
        pairs = [pair for pair in pairs if pair[1] in paragraphs]
        for question_id, own_id in dice.sample(pairs, number // 2):
            own = paragraphs[own_id]
            others = [row for row in paragraphs.values() if _article(row) != _article(own)]
            drawn = [own, *dice.sample(others, _NUM_PASSAGES - 1)]
            dice.shuffle(drawn)
            question = questions[question_id]
            passages = tuple(PromptPassage(row["id"], "", row["text"]) for row in drawn)
            cases[language].append(_Case(language, question["text"], tuple(question["answers"]), passages))
    return [case for pair in zip(cases["en"], cases["zh"], strict=True) for case in pair]


def _article(paragraph: dict[str, Any]) -> str:
    return str(paragraph["id"]).partition("-")[0]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _difference(outcomes: dict[str, list[_Outcome]], way: str, what: str) -> Difference:
    first, second = ([getattr(o, what) for o in outcomes[each]] for each in ("full", way))
    return paired_bootstrap(first, second)


def _is_inside(differences: dict[str, Difference]) -> bool:
    """Whether neither figure is clearly worse than with the full prefill."""
    return all(difference.high >= 0 for difference in differences.values())


def _is_shown_harmless(differences: dict[str, Difference]) -> bool:
    """Whether the intervals leave no room for harm that matters: one that is merely wide shows nothing."""
    return all(differences[what].low >= -most for what, most in _MOST_HARM.items())


def _mean(outcomes: Sequence[_Outcome], what: str) -> float:
    return float(np.mean([getattr(outcome, what) for outcome in outcomes]))


def _by_language(cases: Sequence[_Case], outcomes: dict[str, list[_Outcome]]) -> dict[str, Any]:
    places = {each: [i for i, case in enumerate(cases) if case.language == each] for each in ("en", "zh")}
    return {
        language: {
            way: {what: _mean([each[i] for i in chosen], what) for what in ("logprob", "f1")}
            for way, each in outcomes.items()
        }
        for language, chosen in places.items()
    }


def _table(outcomes: dict[str, list[_Outcome]], differences: dict[str, dict[str, Difference]]) -> BenchTable:
    rows = []
    for way, each in outcomes.items():
        cells = [way, f"{_mean(each, 'computed'):.2f}"]
        for what in ("logprob", "f1"):
            cells.append(f"{_mean(each, what):.3f}")
            difference = differences.get(way, {}).get(what)
            cells.append(
                f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
                if difference
                else ""
            )
        rows.append(tuple(cells))
    columns = ("way", "computed", "gold log-probability", "difference", "F1", "difference")
    return BenchTable("passages moved, against the full prefill", columns, rows)
