"""What one engine's prefix cache holds, told from our own requests and its replies.

A request that was sent leaves its blocks in the cache; the engine evicts the blocks that were out of
use longest, the end of a prompt before its beginning, once its space is full. Both are followed here.
Where a reply reports fewer cached tokens than were counted on, the blocks that were missing are
forgotten, and with them all that had been out of use as long: they were evicted first.

That is an estimate. Where the engine's own events of its cache are followed (`inference.kv_events`) and
nothing of them is missing, what they tell is the answer, and the estimate waits beside it for the day
when an event is lost.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from inference.held_blocks import CacheEvent, Cursor, HeldBlocks
from inference.prefix_tree import Block, BlockKey, block_key, block_keys

_MIN_GUESSED_BLOCKS = 64
_MAX_GUESSED_BLOCKS = 1 << 16
"""Of an engine that does not tell its space: a million tokens, and tens of megabytes here."""


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """Of an engine's cache: tokens in a block, and how many blocks it holds (None: not told)."""

    block_tokens: int
    num_blocks: int | None = None


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A request that runs: what `finished` or `abandoned` is to be told.

    `counted_on` are the ticks at which the leading blocks that should be found had last been in use.
    """

    salt: str
    num_tokens: int
    path: tuple[Block, ...]
    counted_on: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """A place in the tree that a prompt's tokens have led to.

    `block` is the last whole block found by the estimate and `held` by the engine's events, None where
    they have none; `pending` the tokens behind it that fill none yet, `num_cached` the tokens found so far.
    """

    block: Block | None
    held: Cursor | None
    pending: tuple[int, ...] = ()
    num_cached: int = 0


_Spot = tuple[Block | None, Cursor | None]


class ResidentPrefixes:
    """One engine's cache. Safe to share between threads, and meant to be: one for each engine and process."""

    def __init__(self, geometry: CacheGeometry) -> None:
        self.geometry = geometry
        self._capacity = _MAX_GUESSED_BLOCKS if geometry.num_blocks is None else geometry.num_blocks
        self._lock = threading.RLock()
        self._roots: dict[str, Block] = {}
        # In the order of eviction. A block is always touched after those behind it, so the first
        # one never has children.
        self._blocks: OrderedDict[Block, None] = OrderedDict()
        self._tick = 0
        self._held: HeldBlocks | None = None

    @property
    def block_tokens(self) -> int:
        return self.geometry.block_tokens

    @property
    def num_blocks(self) -> int:
        """How many blocks the estimate believes to be held."""
        return len(self._blocks)

    @property
    def is_exact(self) -> bool:
        """Whether the engine's events tell all that it holds, so that nothing is estimated."""
        with self._lock:
            return self._held is not None and self._held.is_exact

    @contextmanager
    def held_still(self) -> Iterator[None]:
        """While the block runs nothing is added or forgotten, so that `Reach`es stay true."""
        with self._lock:
            yield

    def start(self, salt: str) -> Reach:
        """The place in front of every prompt of that salt."""
        with self._lock:
            return Reach(self._roots.get(salt), salt)

    def follow(self, reach: Reach, token_ids: Sequence[int]) -> tuple[Reach, bool]:
        """How far the cache goes along with `token_ids` behind `reach`, and whether it goes all the way.

        All the way means every whole block was found; tokens that fill no block are taken on trust.
        """
        size = self.block_tokens
        spot, ids = (reach.block, reach.held), (*reach.pending, *token_ids)
        found = 0
        with self._lock:
            while found + size <= len(ids):
                after = self._after(spot, block_key(ids[found : found + size]))
                if after is None:
                    return Reach(*spot, (), reach.num_cached + found), False
                spot = after
                found += size
        return Reach(*spot, ids[found:], reach.num_cached + found), True

    def num_cached(self, salt: str, token_ids: Sequence[int]) -> int:
        """Tokens of the prompt that are computed already, as the engine would count them.

        The last token is always computed again, for its logits, and with it its whole block.
        """
        with self._lock:
            return self._num_found(salt, token_ids, only_computed=True) * self.block_tokens

    def num_expected(self, salt: str, token_ids: Sequence[int]) -> int:
        """As `num_cached`, with what requests that still run are about to leave."""
        with self._lock:
            return self._num_found(salt, token_ids, only_computed=False) * self.block_tokens

    def sent(self, salt: str, token_ids: Sequence[int]) -> SentPrompt:
        """A request goes out. Its blocks are there for others to line up with from now on."""
        with self._lock:
            counted_on = [block.touched for block in self._found(salt, token_ids, only_computed=True)]
            path = self._grow(salt, token_ids)
            for block in path:
                block.num_running += 1
            self._touch(path)
            self._evict()
            return SentPrompt(salt, len(token_ids), tuple(path), tuple(counted_on))

    def computed(self, prompt: SentPrompt) -> None:
        """Its first token came: the whole prompt is in the cache."""
        with self._lock:
            for block in prompt.path:
                block.is_computed = True

    def finished(self, prompt: SentPrompt, *, cached_tokens: int | None, completion_tokens: int) -> None:
        """It ended; `cached_tokens` is what the reply says was found, None where it does not say."""
        with self._lock:
            self._ended(prompt)
            self.computed(prompt)
            if cached_tokens is not None:
                self._forget_missing(prompt, cached_tokens // self.block_tokens)
            path = self._restore(prompt)
            self._touch(path)
            self._take(path[-1] if path else None, prompt.num_tokens, completion_tokens)
            self._evict()

    def abandoned(self, prompt: SentPrompt) -> None:
        """It failed, or was broken off, before its first token: what it alone was to compute is not there."""
        with self._lock:
            self._ended(prompt)
            for block in prompt.path:
                if not block.is_computed and block in self._blocks:
                    self._drop(block)
                    return

    def heard_of(self, salt: str, token_ids: Sequence[int]) -> None:
        """Another process's request to the same engine has ended."""
        self.finished(self.sent(salt, token_ids), cached_tokens=None, completion_tokens=0)

    def clear(self) -> None:
        """The engine's cache was reset."""
        with self._lock:
            self._roots.clear()
            self._blocks.clear()

    # ---- what the engine tells ------------------------------------------------------------

    def mirror(self, *, is_complete: bool) -> None:
        """Events will be told from now on.

        Args:
            is_complete: from the first one on; else it is estimated until what was before is gone.
        """
        with self._lock:
            self._held = HeldBlocks(self.block_tokens, self.geometry.num_blocks, is_complete=is_complete)

    def told(self, events: Sequence[CacheEvent]) -> None:
        """What happened in the cache, in order."""
        with self._lock:
            if self._held is not None:
                self._held.take(events)

    def lose_track(self) -> None:
        """Events may be missing: estimate again."""
        with self._lock:
            self._held = None

    # ---- the tree ------------------------------------------------------------------------

    def _num_found(self, salt: str, token_ids: Sequence[int], *, only_computed: bool) -> int:
        """Whole blocks of the prompt, by the engine's events if they are complete."""
        if not self.is_exact:
            return len(self._found(salt, token_ids, only_computed=only_computed))
        spot: _Spot = (self._roots.get(salt), salt)
        found = 0
        for key in block_keys(token_ids[: max(0, len(token_ids) - 1)], self.block_tokens):
            after = self._after(spot, key)
            if after is None or (only_computed and after[1] is None):
                break
            spot = after
            found += 1
        return found

    def _after(self, spot: _Spot, key: BlockKey) -> _Spot | None:
        """Where the next block leads: one that is held, or that a running request is about to leave."""
        block, cursor = spot
        after = block.children.get(key) if block is not None else None
        if self._held is None or not self._held.is_exact:
            return None if after is None else (after, None)
        held = self._held.after(cursor, key) if cursor is not None else None
        if held is None and (after is None or not after.num_running):
            return None
        return after, held

    def _ended(self, prompt: SentPrompt) -> None:
        for block in prompt.path:
            block.num_running -= 1

    def _found(self, salt: str, token_ids: Sequence[int], *, only_computed: bool) -> list[Block]:
        block, path = self._roots.get(salt), []
        for key in block_keys(token_ids[: max(0, len(token_ids) - 1)], self.block_tokens):
            block = block.children.get(key) if block is not None else None
            if block is None or (only_computed and not block.is_computed):
                break
            path.append(block)
        return path

    def _grow(self, salt: str, token_ids: Sequence[int]) -> list[Block]:
        block = self._roots.setdefault(salt, Block(None, b""))
        path = []
        for key in block_keys(token_ids, self.block_tokens):
            after = block.children.get(key)
            if after is None:
                after = block.children[key] = Block(block, key)
            path.append(after)
            block = after
        return path

    def _restore(self, prompt: SentPrompt) -> list[Block]:
        """The prompt's path, blocks that were dropped meanwhile put back: it was computed after all."""
        block = self._roots.setdefault(prompt.salt, Block(None, b""))
        path = []
        for known in prompt.path:
            after = block.children.get(known.key)
            if after is None:
                after = block.children[known.key] = Block(block, known.key)
            after.is_computed = True
            path.append(after)
            block = after
        return path

    def _touch(self, path: Sequence[Block]) -> None:
        self._tick += 1
        for block in reversed(path):
            block.touched = self._tick
            self._blocks[block] = None
            self._blocks.move_to_end(block)

    def _take(self, last: Block | None, num_prompt_tokens: int, completion_tokens: int) -> None:
        """Room that the answer took; its tokens are not known, so nothing is found there."""
        num_blocks = (num_prompt_tokens % self.block_tokens + completion_tokens) // self.block_tokens
        if last is None or not num_blocks:
            return
        answer, block = [], last
        for number in range(num_blocks):
            # No token ids make such a key.
            after = Block(block, b"answer %d %d" % (self._tick, number), is_computed=True)
            block.children[after.key] = after
            answer.append(after)
            block = after
        for after in reversed(answer):
            after.touched = self._tick
            self._blocks[after] = None
        for known in _upwards(last):
            self._blocks.move_to_end(known)

    # ---- forgetting ----------------------------------------------------------------------

    def _evict(self) -> None:
        while len(self._blocks) > self._capacity:
            self._pop_oldest()

    def _forget_missing(self, prompt: SentPrompt, num_found: int) -> None:
        if num_found >= len(prompt.counted_on):
            return
        oldest_held = prompt.counted_on[num_found]
        while self._blocks and next(iter(self._blocks)).touched <= oldest_held:
            self._pop_oldest()
        if self.geometry.num_blocks is None:
            self._capacity = max(_MIN_GUESSED_BLOCKS, len(self._blocks))

    def _pop_oldest(self) -> None:
        block, _ = self._blocks.popitem(last=False)
        self._detach(block)

    def _drop(self, block: Block) -> None:
        self._detach(block)
        waiting = [block]
        while waiting:
            dropped = waiting.pop()
            self._blocks.pop(dropped, None)
            waiting += dropped.children.values()

    def _detach(self, block: Block) -> None:
        if block.parent is not None:
            block.parent.children.pop(block.key, None)


def _upwards(block: Block) -> Iterator[Block]:
    """The block and those in front of it, without the root."""
    while block.parent is not None:
        yield block
        block = block.parent
