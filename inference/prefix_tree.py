"""Prefixes that an engine holds, as a tree of whole blocks of token ids.

vLLM keeps the KV cache in blocks of a fixed number of tokens and reuses a block only behind the very
blocks it was computed behind, so what a prompt finds cached is a path from the root of such a tree.
Each cache salt has a root of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

BlockKey = bytes


@dataclass(slots=True, eq=False)
class Block:
    """A block behind its parent. `touched` is the tick at which it was last in use; `is_computed` is
    False while the request that will compute it runs; `key` is empty for blocks of unknown tokens;
    `num_running` are the requests that run and have it in their prompt."""

    parent: Block | None
    key: BlockKey
    touched: int = 0
    is_computed: bool = False
    num_running: int = 0
    children: dict[BlockKey, Block] = field(default_factory=dict)


def block_key(token_ids: Sequence[int]) -> BlockKey:
    """What tells blocks of the same parent apart: their token ids, exactly."""
    return array("q", token_ids).tobytes()


def block_keys(token_ids: Sequence[int], block_tokens: int) -> Iterator[BlockKey]:
    """Keys of the whole blocks of a prompt, in order."""
    whole = len(token_ids) - len(token_ids) % block_tokens
    for start in range(0, whole, block_tokens):
        yield block_key(token_ids[start : start + block_tokens])
