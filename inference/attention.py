"""Where a model looked while it wrote: attention of an answer's tokens over the parts of its prompt.

The engine keeps no attention, so the answer is read again by transformers, with the attention that
writes out its weights (`eager`). What the answer was is given, so this shows where these tokens find
their grounds, whatever sampling picked them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.errors import EngineIncapable, ModelUnavailable, TooLong
from core.precedence import current_precedence

RULE = "mean over all layers and heads of the weights at the position that predicts the token"

_PREFILL_TOKENS = 256
_ANSWER_TOKENS = 16  # layers · heads · 16 · tokens · 4 bytes: 70 MB of SmolLM2 at 4,096 tokens


@dataclass(frozen=True, slots=True)
class Attention:
    """Shares of attention, a row for each answer token read; a row and its `own` add up to 1.

    `by_token` is over the prompt's segments, `own` what goes to the answer's tokens before it. The
    prompt's very first tokens take much of it whatever is asked (they are the model's resting place),
    which is why passages are best compared with one another.
    """

    by_token: NDArray[np.float32]  # (num_tokens, num_segments)
    own: NDArray[np.float32]  # (num_tokens,)
    seconds: float


class AttentionReader(Protocol):
    """Reads an answer again, with a model of its own."""

    @property
    def max_tokens(self) -> int:
        """Of prompt and answer together."""
        ...

    def read(
        self,
        prompt: Sequence[int],
        answer: Sequence[int],
        *,
        segment_ends: Sequence[int],
        checkpoint: Callable[[], None],
    ) -> Attention:
        """The attention of as many tokens of `answer` as `max_tokens` lets be read.

        Args:
            segment_ends: where each part of the prompt ends, in tokens; the last is all of it.
            checkpoint: called between slices of work; what it raises ends the work.

        Raises:
            TooLong: the prompt alone has `max_tokens` or more.
            EngineIncapable: the model is too large to be loaded beside the engine.
            ModelUnavailable: it is not there, or not of a kind that transformers can load.
        """
        ...


class TransformersAttentionReader:
    """`AttentionReader` that loads the generator's folder anew each time, and keeps nothing of it.

    Args:
        max_model_bytes: weights larger than this are not loaded.
    """

    def __init__(self, folder: Path, *, max_tokens: int, max_model_bytes: int) -> None:
        self._folder = folder
        self._max_tokens = max_tokens
        self._max_model_bytes = max_model_bytes

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    def read(
        self,
        prompt: Sequence[int],
        answer: Sequence[int],
        *,
        segment_ends: Sequence[int],
        checkpoint: Callable[[], None],
    ) -> Attention:
        self._require_room(prompt)
        current_precedence().give_way()
        started = time.perf_counter()
        model = self._load()
        read = list(answer[: self._max_tokens - len(prompt)])
        rows = list(_attend(model, [*prompt, *read], len(prompt), checkpoint))
        weights = np.concatenate(rows) if rows else np.zeros((0, len(prompt)), np.float32)
        starts = [0, *segment_ends[:-1]]
        by_token = np.stack(
            [weights[:, a:b].sum(axis=1) for a, b in zip(starts, segment_ends, strict=True)], axis=1
        )
        own = weights[:, len(prompt) :].sum(axis=1)
        return Attention(by_token, own, time.perf_counter() - started)

    def _require_room(self, prompt: Sequence[int]) -> None:
        if len(prompt) >= self._max_tokens:
            raise TooLong(
                f"The prompt has {len(prompt):,} tokens; attention is read of up to {self._max_tokens:,}.",
                remedy="Raise LONGLEAF_ASK__TRACE_ATTENTION_TOKENS; time and memory grow with its square.",
                prompt_tokens=len(prompt),
                max_tokens=self._max_tokens,
            )
        size = sum(path.stat().st_size for path in self._folder.glob("*.safetensors"))
        if size > self._max_model_bytes:
            raise EngineIncapable(
                f"The generator's weights have {size / 2**30:.1f} GiB; attention is read of models of up "
                f"to {self._max_model_bytes / 2**30:.1f} GiB.",
                remedy="Raise LONGLEAF_ASK__TRACE_ATTENTION_BYTES where a worker has the memory.",
            )

    def _load(self) -> Any:
        from transformers import AutoModelForCausalLM

        try:
            model = AutoModelForCausalLM.from_pretrained(
                self._folder, attn_implementation="eager", local_files_only=True
            )
        except (OSError, ValueError, KeyError) as error:
            raise ModelUnavailable(
                f"transformers cannot load the generator from {self._folder}: {error}.",
                remedy="Attention needs the model's own folder on the worker; prepare it there.",
            ) from error
        return model.float().eval()


def _attend(
    model: Any, tokens: Sequence[int], num_prompt: int, checkpoint: Callable[[], None]
) -> list[NDArray[np.float32]]:
    """Rows of weights over all tokens, (len(tokens) - num_prompt, len(tokens)) in all.

    The row of a token is that of the position before it, which predicts it; so the last prompt token
    is read together with the answer, and the last answer token, which predicts nothing here, is not.
    """
    import torch

    rows: list[NDArray[np.float32]] = []
    ids = torch.tensor([list(tokens)])
    cache, position = None, 0
    with torch.inference_mode():
        while position < len(tokens) - 1:
            checkpoint()
            is_prompt = position < num_prompt - 1
            end = (
                min(position + _PREFILL_TOKENS, num_prompt - 1)
                if is_prompt
                else min(position + _ANSWER_TOKENS, len(tokens) - 1)
            )
            result = model(
                ids[:, position:end],
                past_key_values=cache,
                use_cache=True,
                output_attentions=not is_prompt,
                logits_to_keep=1,
            )
            cache, position = result.past_key_values, end
            if not is_prompt:
                rows.append(_mean_weights(result.attentions, len(tokens)))
    return rows


def _mean_weights(layers: Sequence[Any], num_tokens: int) -> NDArray[np.float32]:
    """The mean over layers and heads, (num_queries, num_tokens); what lies ahead has no weight."""
    total = sum(layer[0].float().mean(dim=0) for layer in layers) / len(layers)
    weights: NDArray[np.float32] = total.numpy()
    return np.pad(weights, ((0, 0), (0, num_tokens - weights.shape[1])))
