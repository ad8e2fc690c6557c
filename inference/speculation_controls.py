"""Keeps every sampling control while vLLM speculates: requests that use one that guesses would lose
go without guesses, beside others that have them.

vLLM 0.32 checks guesses with the model's plain distribution. It refuses `min_p` and `logit_bias` then,
and does not start with a logits processor. But a request without guesses is sampled as ever, controls
and all. So the scheduler takes the guesses of such requests away, the processors are built in spite of
speculation, and the refusal goes. For n-gram guesses only: they cost nothing when they are not used.
"""

from __future__ import annotations

import copy
import functools
import sys
from typing import Any

_RUNNER = "vllm.v1.worker.gpu_model_runner"
_METHOD = "ngram"


def keep_controls() -> None:
    """Have this process of vLLM do so; all of it or, in a vLLM that lacks one of the places, nothing."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.sample import logits_processor
    from vllm.v1.sample.rejection_sampler import RejectionSampler

    places = (
        (RejectionSampler, "forward"),
        (SamplingParams, "_validate_spec_decode"),
        (Scheduler, "update_draft_token_ids"),
        (logits_processor, "build_logitsprocs"),
    )
    if not all(hasattr(owner, name) for owner, name in places):
        return
    if getattr(logits_processor.build_logitsprocs, "keeps_controls", False):
        return
    SamplingParams._validate_spec_decode = _checked_unless_ngram(SamplingParams._validate_spec_decode)
    Scheduler.update_draft_token_ids = _without_guesses(Scheduler.update_draft_token_ids)
    logits_processor.build_logitsprocs = _built_in_spite(logits_processor.build_logitsprocs)
    RejectionSampler.forward = _plain_without_guesses(RejectionSampler.forward)
    runner = sys.modules.get(_RUNNER)
    if runner is not None and hasattr(runner, "build_logitsprocs"):
        runner.build_logitsprocs = logits_processor.build_logitsprocs  # type: ignore[attr-defined]


def check_guesses_on_cpu() -> None:
    """Have guesses of sampled requests checked with their own temperature, top_p and top_k on a CPU.

    There vLLM 0.32 spreads these over a request's tokens into a copy that it throws away, and goes on
    with whatever stood in memory: texts then hold words that the model would never write, those of
    greedy requests in the same batch too, and with `top_k` the engine ends.
    """
    from vllm.platforms import current_platform
    from vllm.v1.sample import rejection_sampler

    if current_platform.is_cpu() and hasattr(rejection_sampler, "expand_batch_to_tokens"):
        rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens


def expand_batch_to_tokens(
    x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: float = 0, replace_to: float = 0
) -> Any:
    """What vLLM's function of that name promises: each value as often as its request has tokens.

    Args:
        x: one value for each request, as a tensor of any type.
        cu_num_tokens: tokens of each request and of all before it.
        num_tokens: of all.
        replace_from: a value in place of which `replace_to` is given.
    """
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    replaced = x.masked_fill(x == replace_from, replace_to)
    return replaced.repeat_interleave(counts, output_size=num_tokens)


def loses_to_guesses(sampling_params: Any) -> bool:
    """Whether the request uses a control that is applied to unguessed tokens only.

    Or has a seed: how much is drawn for a token depends on what was guessed, and that on who else is
    asking, so the same seed would not draw the same answer.
    """
    return bool(
        sampling_params is not None
        and (
            sampling_params.min_p
            or (sampling_params.seed is not None and sampling_params.temperature > 0)
            or sampling_params.logit_bias
            or (sampling_params.extra_args or {}).get("no_repeat_ngram_size")
            or (sampling_params.extra_args or {}).get("banned_words")
        )
    )


def _checked_unless_ngram(check: Any) -> Any:
    @functools.wraps(check)
    def checked(self: Any, speculative_config: Any) -> None:
        if getattr(speculative_config, "method", None) != _METHOD:
            check(self, speculative_config)

    return checked


def _without_guesses(update: Any) -> Any:
    @functools.wraps(update)
    def updated(self: Any, draft_token_ids: Any) -> None:
        for position, request_id in enumerate(draft_token_ids.req_ids):
            request = self.requests.get(request_id)
            if request is not None and loses_to_guesses(request.sampling_params):
                draft_token_ids.draft_token_ids[position] = []
        update(self, draft_token_ids)

    return updated


def _plain_without_guesses(forward: Any) -> Any:
    """A step in which nothing was guessed for anybody, by the plain sampler.

    vLLM 0.32 checks the guesses all the same, and with `top_k` dies of having none.
    """

    @functools.wraps(forward)
    def sampled(self: Any, metadata: Any, draft_probs: Any, logits: Any, sampling_metadata: Any) -> Any:
        if any(metadata.num_draft_tokens):
            return forward(self, metadata, draft_probs, logits, sampling_metadata)
        return self.sampler(logits=logits[metadata.bonus_logits_indices], sampling_metadata=sampling_metadata)

    return sampled


def _built_in_spite(build: Any) -> Any:
    @functools.wraps(build)
    def built(vllm_config: Any, *arguments: Any, **options: Any) -> Any:
        if getattr(vllm_config.speculative_config, "method", None) == _METHOD:
            vllm_config = copy.copy(vllm_config)
            vllm_config.speculative_config = None
        return build(vllm_config, *arguments, **options)

    built.keeps_controls = True  # type: ignore[attr-defined]
    return built
