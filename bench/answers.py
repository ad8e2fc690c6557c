"""How good answers are, ours and those of LlamaIndex, Haystack and LangChain at their defaults.

The same engine, embedder weights, files, questions, greedy decoding and limit on the answer for all;
systems come in a drawn order, and the engine's prefix cache is reset before each set of each.

`f1` and `em` are of the answer (SQuAD's; characters for Chinese). `gold_logprob` is the mean
log-probability of the gold answer's tokens after the very prompt that the system sent, so it measures
what a prompt is worth to a model apart from what the model then writes; `prompt_tokens` is its length.
Ours answers as it does by default, which with a model this small is by verbatim sentences, with no
prompt at all; prompt and log-probability are those of the answer it writes when asked to
(`mode=abstractive`). A system that sends no prompt, for it refused or failed, is scored by the question
alone.

`extra` takes `peers.python` (see `bench.peers`), `sample` (`dev`: other questions, to tune by), `sets`
and `systems` (a comma-separated few of them), `num_at_once` and `ours.FIELD` (a field of our request).
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.answer_scores import (
    LANGUAGES,
    OURS,
    SYSTEMS,
    Score,
    differences,
    figures,
    mean,
    of_language,
    score,
    table_of,
)
from bench.answer_sets import AnswerSet, load_sets
from bench.answer_systems import MAX_TOKENS, System, our_request, running_system
from bench.recorded_service import RecordedService, recorded_service
from bench.recording_proxy import Watched
from bench.report import BenchOptions, BenchResult
from core.errors import EngineIncapable, InvalidInput

_SEED = 20261130
_RESET_ATTEMPTS = 30


def run(options: BenchOptions) -> BenchResult:
    """Figures `f1_X`, `em_X`, `gold_logprob_X`, `prompt_tokens_X` for X in `SYSTEMS`.

    Raises:
        InvalidInput: an option is wrong.
        Misconfigured: the peers are not installed.
    """
    sets = load_sets(
        options.data_dir,
        quick=options.quick,
        sample="dev" if options.extra.get("sample") == "dev" else "report",
    )
    if chosen := options.extra.get("sets"):
        sets = [one for one in sets if one.name in chosen.split(",")]
    names = _chosen_systems(options)
    scores: list[Score] = []
    with recorded_service(options, "answers") as service:
        # One system after another, for each of the frameworks holds some 2 GB.
        for name in random.Random(_SEED).sample(names, len(names)):
            with running_system(service, name, options.extra) as system:
                for answer_set in sets:
                    own = _measure(service, system, answer_set)
                    scores += own
                    print(f"{name}, {answer_set.name}: {_in_short(own)}", file=sys.stderr)
    return _result(scores, names, sets, options)


def _measure(service: RecordedService, system: System, answer_set: AnswerSet) -> list[Score]:
    with tempfile.TemporaryDirectory() as folder:
        system.index(_write_files(Path(folder), answer_set), answer_set)
    _reset_prefix_cache(service)
    service.proxy.watch([Watched(q.text, q.answers[0]) for q in answer_set.questions])
    replies = {reply.question: reply for reply in system.ask(answer_set.questions)}
    return [
        score(service.proxy, system.name, answer_set, question, replies[question.text])
        for question in answer_set.questions
    ]


def _in_short(scores: Sequence[Score]) -> str:
    f1, logprob = mean([one.f1 for one in scores]), mean([one.gold_logprob for one in scores])
    num_tokens = mean([float(one.prompt_tokens) for one in scores])
    return f"F1 {f1:.3f}, log p(gold) {logprob:.3f}, {num_tokens:,.0f} prompt tokens"


def _reset_prefix_cache(service: RecordedService) -> None:
    """The engine refuses while it still frees the blocks of requests that have just ended."""
    for _ in range(_RESET_ATTEMPTS):
        try:
            service.engine.reset_prefix_cache()
            return
        except EngineIncapable:
            time.sleep(1.0)
    service.engine.reset_prefix_cache()


def _chosen_systems(options: BenchOptions) -> tuple[str, ...]:
    chosen = tuple(options.extra.get("systems", ",".join(SYSTEMS)).split(","))
    if unknown := set(chosen) - set(SYSTEMS):
        raise InvalidInput(
            f"There is no system {sorted(unknown)[0]!r}.", remedy=f"Choose from {', '.join(SYSTEMS)}."
        )
    return chosen


def _write_files(folder: Path, answer_set: AnswerSet) -> list[Path]:
    paths = []
    for file in answer_set.files:
        path = folder / file.name
        path.write_text(file.text, encoding="utf-8")
        paths.append(path)
    return paths


def _result(
    scores: Sequence[Score], names: Sequence[str], sets: Sequence[AnswerSet], options: BenchOptions
) -> BenchResult:
    return BenchResult(
        name="answers",
        config={
            "max_tokens": MAX_TOKENS,
            "sample": options.extra.get("sample", "report"),
            "quick": options.quick,
            "ours": our_request(options.extra),
            "sets": {s.name: {"num_files": len(s.files), "num_questions": len(s.questions)} for s in sets},
        },
        figures=figures(scores, names),
        details={
            "by_language": {lang: figures(of_language(scores, lang), names) for lang in ("en", "zh")},
            "by_set": {s.name: figures([x for x in scores if x.set_name == s.name], names) for s in sets},
            "written": {
                lang: mean([x.written_f1 for x in of_language(scores, lang) if x.system == OURS])
                for lang in ("en", "zh")
            },
            "differences": differences(scores, names),
            "questions": [asdict(one) for one in scores],
        },
        tables=[table_of(of_language(scores, lang), names, title) for lang, title in LANGUAGES],
    )
