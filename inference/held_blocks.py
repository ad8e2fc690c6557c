"""The blocks that an engine holds, mirrored from the events it publishes of its cache.

vLLM names a block by a hash over all tokens up to its end, and tells a block's tokens and parent when it
is stored. Where a prompt's whole block was computed twice two copies are held, and the block is gone
when both are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inference.prefix_tree import BlockKey, block_keys

BlockHash = bytes | int
Cursor = str | BlockHash
"""A place in the mirror: the salt in front of every prompt, or the last block found."""


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Blocks that follow each other behind `parent` (None: they begin a prompt).

    `salts` has an entry for each block: the cache salt of one that begins a prompt, empty for all others;
    None for one that holds more than plain text (an adapter's, a picture's).
    """

    hashes: Sequence[BlockHash]
    parent: BlockHash | None
    token_ids: Sequence[int]
    salts: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    """One copy of each is gone."""

    hashes: Sequence[BlockHash]


@dataclass(frozen=True, slots=True)
class AllCleared:
    """The cache was reset."""


CacheEvent = BlocksStored | BlocksRemoved | AllCleared


class HeldBlocks:
    """Not safe to share between threads.

    Args:
        num_blocks: that the engine can hold; None: not told.
        is_complete: whether the engine held nothing when the first event that will come happened.
    """

    def __init__(self, block_tokens: int, num_blocks: int | None, *, is_complete: bool) -> None:
        self._block_tokens = block_tokens
        # One of vLLM's blocks stays empty for ever: it stands for none.
        self._room = math.inf if num_blocks is None else num_blocks - 1
        self._copies: dict[BlockHash, int] = {}
        self._num_held = 0
        self._places: dict[BlockHash, tuple[Cursor, BlockKey]] = {}
        self._hashes: dict[tuple[Cursor, BlockKey], BlockHash] = {}
        # At most so many blocks are held that no event told of.
        self._max_untold = 0 if is_complete else self._room

    @property
    def is_exact(self) -> bool:
        """Whether all that the engine holds is known.

        A mirror that began late is so once all that was there before must be gone: it was seen to be
        removed, or there is no room for it beside what was stored since.
        """
        return self._max_untold <= 0

    def after(self, cursor: Cursor, key: BlockKey) -> Cursor | None:
        """The block of those tokens behind `cursor`; None where it is not held."""
        return self._hashes.get((cursor, key))

    def take(self, events: Iterable[CacheEvent]) -> None:
        """What happened, in order."""
        for event in events:
            if isinstance(event, BlocksStored):
                self._store(event)
            elif isinstance(event, BlocksRemoved):
                self._remove(event.hashes)
            else:
                self._clear()
            self._max_untold = min(self._max_untold, self._room - self._num_held)

    def _store(self, event: BlocksStored) -> None:
        parent: Cursor | None = event.parent
        keys = block_keys(event.token_ids, self._block_tokens)
        for block_hash, key, salt in zip(event.hashes, keys, event.salts, strict=True):
            self._num_held += 1
            copies = self._copies.get(block_hash, 0)
            self._copies[block_hash] = copies + 1
            before = salt if parent is None else parent
            if salt is not None and before is not None and not copies:
                self._places[block_hash] = before, key
                self._hashes[before, key] = block_hash
            parent = block_hash

    def _remove(self, hashes: Sequence[BlockHash]) -> None:
        for block_hash in hashes:
            copies = self._copies.get(block_hash, 0)
            if not copies:
                self._max_untold -= 1
                continue
            self._num_held -= 1
            if copies > 1:
                self._copies[block_hash] = copies - 1
                continue
            del self._copies[block_hash]
            place = self._places.pop(block_hash, None)
            if place is not None:
                self._hashes.pop(place, None)

    def _clear(self) -> None:
        self._copies.clear()
        self._places.clear()
        self._hashes.clear()
        self._num_held, self._max_untold = 0, 0
