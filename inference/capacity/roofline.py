"""Lower bounds on time: no engine is faster than its device's arithmetic and memory."""

from __future__ import annotations

from dataclasses import dataclass

from inference.capacity.devices import Device
from inference.capacity.kv_cache import kv_bytes_per_token
from inference.capacity.shape import ModelShape

# An all-reduce after attention and after the feed-forward costs part of what a further device adds.
_PARALLEL_EFFICIENCY = 0.85


@dataclass(frozen=True, slots=True)
class Roofline:
    """A model on a device: weights of `weight_bytes`, a cache of numbers of `kv_dtype`."""

    shape: ModelShape
    device: Device
    weight_bytes: int
    kv_dtype: str
    tensor_parallel: int = 1
    is_8bit: bool = False  # arithmetic in FP8 or INT8

    @property
    def flops(self) -> float:
        """Operations a second of all devices together."""
        peak = self.device.flops_8bit if self.is_8bit and self.device.flops_8bit else self.device.flops
        return peak * self._speedup

    @property
    def bytes_per_second(self) -> float:
        return self.device.bytes_per_second * self._speedup

    @property
    def _speedup(self) -> float:
        num = self.tensor_parallel
        return 1.0 if num == 1 else num * _PARALLEL_EFFICIENCY

    def prefill_seconds(self, num_tokens: int, *, cached_tokens: int = 0) -> float:
        """To the first token of a prompt, `cached_tokens` of which are in the cache."""
        flops = prefill_flops(self.shape, num_tokens, cached_tokens=cached_tokens)
        return max(flops / self.flops, self.weight_bytes / self.bytes_per_second)

    def decode_seconds(self, context_tokens: int, *, num_sequences: int = 1) -> float:
        """One further token of each of `num_sequences` sequences so long."""
        shape = self.shape
        flops = num_sequences * (
            2 * (shape.num_active + shape.num_head)
            + 4 * shape.num_heads * shape.head_dim * _seen(shape, context_tokens)
        )
        kept = kv_bytes_per_token(shape, dtype=self.kv_dtype, tensor_parallel=self.tensor_parallel)
        per_layer = kept * self.tensor_parallel / shape.num_layers
        read = self._weights_read(num_sequences) + num_sequences * per_layer * _seen(shape, context_tokens)
        return max(flops / self.flops, read / self.bytes_per_second)

    def _weights_read(self, num_sequences: int) -> float:
        """Of a model with experts a step reads those that its tokens chose: all, for a large batch."""
        shape = self.shape
        dense = shape.num_active + shape.num_head
        share = min(1.0, dense * num_sequences / max(1, shape.num_parameters))
        # The embedding table is looked up and not read, unless it is the head as well.
        untied = shape.num_embedding - shape.num_head
        used = 1.0 - untied / shape.num_parameters
        return self.weight_bytes * (used if share >= used else max(share, dense / shape.num_parameters))


def prefill_flops(shape: ModelShape, num_tokens: int, *, cached_tokens: int = 0) -> float:
    """Operations to compute a prompt's uncached tokens and sample the first of the answer.

    2 for each weight a token meets; attention 4 for each value of each head and each token seen.
    """
    new = num_tokens - cached_tokens
    attention = 4 * shape.num_heads * shape.head_dim
    full = shape.num_full_layers * attended(num_tokens, cached_tokens)
    windowed = shape.num_window_layers * attended(num_tokens, cached_tokens, window=shape.window)
    return float(2 * shape.num_active * new + 2 * shape.num_head + attention * (full + windowed))


def attended(num_tokens: int, cached_tokens: int = 0, *, window: int = 0) -> int:
    """Pairs of a computed token and one it looks at: the sum over computed tokens of their position."""

    def below(count: int) -> int:
        """Pairs of the first `count` tokens."""
        if not window or count <= window:
            return count * (count + 1) // 2
        return window * (window + 1) // 2 + (count - window) * window

    return below(num_tokens) - below(cached_tokens)


def _seen(shape: ModelShape, context_tokens: int) -> int:
    """Tokens that one more token looks at, summed over layers."""
    windowed = min(context_tokens, shape.window) if shape.num_window_layers else 0
    return shape.num_full_layers * context_tokens + shape.num_window_layers * windowed
