"""Whether every sampling control does to a real engine's tokens what it promises.

    longleaf bench sampling [--quick] [--extra engine=URL]

Distributions are drawn and compared with what the model's own probabilities make of the control;
bans, ends, seeds and beams are looked for in the tokens. Then answers of a form are drawn and held
against the form. An engine is started for it as `longleaf up` starts one, speculation and all, unless
one is named, which must have Longleaf's logits processors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.own_engine import running_engine
from bench.report import BenchOptions, BenchResult, BenchTable
from bench.sampling_checks import CHECKS, Finding
from bench.sampling_constraints import constrained_prompts, share_satisfied
from bench.sampling_engine import SampledEngine
from core.settings import load_settings
from inference.completions_client import CompletionsClient
from inference.prepare import prepare_model
from inference.registry import find_model
from inference.tokenizers import HuggingFaceTokenizer

_NUM_DRAWN, _NUM_DRAWN_QUICKLY = 1500, 300
_NUM_FORMS, _NUM_FORMS_QUICKLY = 100, 12


def run(options: BenchOptions) -> BenchResult:
    """Raises `EngineUnavailable` where the engine does not start or fails."""
    num_drawn = _NUM_DRAWN_QUICKLY if options.quick else _NUM_DRAWN
    num_forms = _NUM_FORMS_QUICKLY if options.quick else _NUM_FORMS
    settings = load_settings().engine
    spec = find_model(settings.model, role="generator", revision=settings.revision)
    tokenizer = HuggingFaceTokenizer(prepare_model(spec, options.model_dir))
    with _client(options) as client:
        info = client.info()
        engine = SampledEngine(client.url, model=info.model, tokenizer=tokenizer)
        findings = {name: check(engine, num_drawn) for name, check in CHECKS.items()}
        satisfied, wrong_forms = share_satisfied(client, constrained_prompts(num_forms), encode=engine.chat)
        engine.close()
    return BenchResult(
        name="sampling",
        config={"model": info.model, "num_drawn": num_drawn, "num_constrained": num_forms},
        figures={
            "num_controls": len(findings),
            "num_wrong": sum(not finding.is_right for finding in findings.values()),
            "constraints_satisfied": satisfied,
        },
        details={
            "findings": {
                name: {"measured": found.measured, "expected": found.expected, "is_right": found.is_right}
                for name, found in findings.items()
            },
            "wrong_forms": wrong_forms,
        },
        tables=[
            BenchTable(
                "Sampling controls on a real engine",
                ("control", "right", "measured", "expected"),
                [_row(name, found) for name, found in findings.items()],
            )
        ],
    )


def _row(name: str, found: Finding) -> tuple[str, str, str, str]:
    return name, "yes" if found.is_right else "NO", found.measured, found.expected


@contextmanager
def _client(options: BenchOptions) -> Iterator[CompletionsClient]:
    if url := options.extra.get("engine"):
        client = CompletionsClient(url, model=load_settings().engine.model)
        yield client
        client.close()
        return
    with running_engine(options, "sampling") as engine:
        yield engine.client
