"""Bytes and blocks of the KV cache, counted as vLLM counts them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.errors import InvalidInput
from inference.capacity.dtypes import bytes_of
from inference.capacity.shape import ModelShape

# Kinds of layers that differ by less than this in number are padded to one group size.
_PAD_BELOW = 1.5


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How a model's keys and values lie in blocks, on one device.

    A block holds `block_tokens` tokens of `layers_per_group` layers. A sequence has a row of blocks
    for each group: as long as itself in `full_groups`, as the window in `window_groups`.
    """

    block_tokens: int
    bytes_per_block: int
    layers_per_group: int
    full_groups: int
    window_groups: int
    window: int
    max_in_flight_tokens: int

    def num_blocks(self, kv_bytes: int) -> int:
        """Blocks that fit: what vLLM reports as `num_gpu_blocks`, on CPU too."""
        return max(0, kv_bytes // self.bytes_per_block)

    def blocks_of(self, num_tokens: int) -> int:
        """Blocks of one sequence so long."""
        full = math.ceil(num_tokens / self.block_tokens) * self.full_groups
        if not self.window_groups:
            return full
        # While a prompt is computed, a window layer holds its window and the chunk in flight.
        held = min(self.window - 1 + self.max_in_flight_tokens, num_tokens)
        return full + (math.ceil(held / self.block_tokens) + 1) * self.window_groups

    def num_sequences(self, num_blocks: int, num_tokens: int) -> int:
        """Sequences so long that fit at once, none of them sharing a prefix."""
        # vLLM keeps one block for itself (the null block).
        return max(0, num_blocks - 1) // self.blocks_of(num_tokens)

    def token_capacity(self, num_blocks: int, max_model_len: int) -> int:
        """Tokens that fit: vLLM's log line `KV cache size`."""
        return int(num_blocks / self.blocks_of(max_model_len) * max_model_len)


def kv_bytes_per_token(shape: ModelShape, *, dtype: str, tensor_parallel: int = 1) -> int:
    """Bytes that a token leaves on one device, in all layers that keep it."""
    return round(_values_per_layer(shape, tensor_parallel) * shape.num_layers * bytes_of(dtype))


def kv_layout(
    shape: ModelShape,
    *,
    dtype: str,
    block_tokens: int,
    tensor_parallel: int = 1,
    max_in_flight_tokens: int = 2048,
) -> KvLayout:
    """The layout that vLLM gives a model's cache.

    Layers that see all and layers that see a window get blocks of their own, in groups of the same
    number of layers (`vllm/v1/core/kv_cache_utils.py`).

    Raises:
        InvalidInput: the heads cannot be shared out between so many devices.
    """
    if shape.num_heads % tensor_parallel:
        raise InvalidInput(
            f"{shape.num_heads} attention heads cannot be shared out between {tensor_parallel} devices.",
            remedy="Choose a tensor_parallel_size that divides the number of heads.",
            num_heads=shape.num_heads,
        )
    kinds = [count for count in (shape.num_full_layers, shape.num_window_layers) if count]
    smallest, largest = min(kinds), max(kinds)
    per_group = largest if largest < smallest * _PAD_BELOW else smallest
    per_layer = _values_per_layer(shape, tensor_parallel) * bytes_of(dtype)
    return KvLayout(
        block_tokens=block_tokens,
        bytes_per_block=round(per_layer * block_tokens * per_group),
        layers_per_group=per_group,
        full_groups=math.ceil(shape.num_full_layers / per_group),
        window_groups=math.ceil(shape.num_window_layers / per_group),
        window=shape.window,
        max_in_flight_tokens=max_in_flight_tokens,
    )


def _values_per_layer(shape: ModelShape, tensor_parallel: int) -> int:
    """Numbers that one device keeps of a token in a layer: keys and values of its share of heads."""
    if shape.latent_values:
        return shape.latent_values  # every device has all of it
    return 2 * math.ceil(shape.num_kv_heads / tensor_parallel) * shape.head_dim
