"""The worker's side: values of a block between the engine's memory and a block file."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from inference.kv_store.block_file import HEADER_BYTES, block_buffer


class KvMemory:
    """The engine's KV tensors, block by block.

    A block's payload is the block's part of each layer's tensor, layer after layer, as it lies
    there: whatever the kernels made of keys and values, the same kernels read it back.

    Args:
        layers: `(num_blocks, …)` each; a tensor that several layers share counts once.
    """

    def __init__(self, layers: Iterable[torch.Tensor]) -> None:
        self._layers = list({layer.data_ptr(): layer for layer in layers}.values())
        self.payload_bytes = sum(layer[0].numel() * layer.element_size() for layer in self._layers)

    def save(self, block_id: int) -> bytearray:
        """The block's values, behind room for the header of a file."""
        buffer = block_buffer(self.payload_bytes)
        for part, layer in zip(self._parts(memoryview(buffer)[HEADER_BYTES:]), self._layers, strict=True):
            part.copy_(layer[block_id])
        return buffer

    def load(self, block_id: int, payload: memoryview) -> None:
        """Put values that `save` gave into a block."""
        for part, layer in zip(self._parts(payload), self._layers, strict=True):
            layer[block_id].copy_(part)

    def _parts(self, payload: memoryview) -> Iterable[torch.Tensor]:
        offset = 0
        for layer in self._layers:
            block = layer[0]
            num_bytes = block.numel() * block.element_size()
            flat = torch.frombuffer(payload, dtype=torch.uint8, count=num_bytes, offset=offset)
            yield flat.view(block.dtype).view(block.shape)
            offset += num_bytes
