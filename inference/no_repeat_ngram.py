"""`no_repeat_ngram_size`, which vLLM lacks: a logits processor of ours that runs inside it.

Loaded by `--logits-processors inference.no_repeat_ngram:NoRepeatNgram` in the server, which checks
requests, and in the workers, which apply it. A request turns it on by
`"vllm_xargs": {"no_repeat_ngram_size": n}`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import torch
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

ARGUMENT = "no_repeat_ngram_size"


class SeenNgrams:
    """The n-grams of one answer, and what would complete one of them a second time.

    Args:
        size: n, at least 1; 1 bans every token that the answer has.
        output_token_ids: the engine's own list, which grows with the answer. An answer that was
            preempted and begins again has a shorter one, or another list altogether.
    """

    def __init__(self, size: int, output_token_ids: list[int]) -> None:
        self._size = size
        self._output = output_token_ids
        self._completions: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        self._num_seen = 0

    def banned(self) -> Collection[int]:
        """Token ids that would complete an n-gram of the answer again."""
        # A token that the engine has not settled yet is -1; it comes to be real before we are asked.
        output = self._output
        if len(output) < self._num_seen:
            self._completions.clear()
            self._num_seen = 0
        for end in range(max(self._num_seen, self._size - 1), len(output)):
            self._completions[tuple(output[end - self._size + 1 : end])].add(output[end])
        self._num_seen = len(output)
        if len(output) < self._size - 1:
            return ()
        prefix = tuple(output[len(output) - self._size + 1 :])
        return self._completions.get(prefix, ())


class NoRepeatNgram(LogitsProcessor):  # type: ignore[misc]  # vLLM is not type-checked here
    """Takes from each request's next token whatever would repeat one of its answer's n-grams."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Raises `ValueError` for a size that is not a number from 0 to 1,000; vLLM answers 400."""
        size = (sampling_params.extra_args or {}).get(ARGUMENT, 0)
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= 1000:
            raise ValueError(f"{ARGUMENT} must be an integer from 0 to 1000, got {size!r}.")

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._device = device
        self._requests: dict[int, SeenNgrams] = {}  # by index in the batch

    def is_argmax_invariant(self) -> bool:
        """What is banned may be the likeliest."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow requests that came, went and moved; those that did not ask for it are not kept."""
        process_dict_updates(self._requests, batch_update, _of_request)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """`logits` (num_requests, vocabulary) with the banned ones at minus infinity."""
        rows: list[int] = []
        columns: list[int] = []
        for row, seen in self._requests.items():
            banned = seen.banned()
            rows += [row] * len(banned)
            columns += banned
        if rows:
            index = torch.tensor([rows, columns], device=self._device)
            logits[index[0], index[1]] = -torch.inf
        return logits


def _of_request(
    sampling_params: SamplingParams, prompt_token_ids: list[int] | None, output_token_ids: list[int]
) -> SeenNgrams | None:
    size = (sampling_params.extra_args or {}).get(ARGUMENT, 0)
    return SeenNgrams(size, output_token_ids) if size else None
