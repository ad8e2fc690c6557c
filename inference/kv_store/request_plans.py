"""The scheduler's side: which blocks of which request to load, and which to keep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from inference.kv_store.block_keys import KeyChain
from inference.kv_store.block_store import BlockStore
from inference.kv_store.kept_text import KeptText


@dataclass(frozen=True, slots=True)
class BlockTransfer:
    """Values to move between a block of the engine's memory and the block of that key on disk."""

    key: str
    block_id: int


@dataclass(slots=True)
class _Plan:
    """Of one request: blocks `first_loaded` and `num_loaded` on come from disk; of the first
    `num_kept` blocks, which are to be kept, `num_settled` are on disk or on their way there."""

    chain: KeyChain
    num_kept: int
    num_settled: int = 0
    first_loaded: int = 0
    num_loaded: int = 0
    is_load_due: bool = False


class RequestPlans:
    """What the store does for the requests that are in the engine.

    Args:
        block_tokens: tokens of a block; only whole blocks are kept and loaded.
        report: told `record_failed`, and why.
    """

    def __init__(
        self, store: BlockStore, namespace: str, *, block_tokens: int, report: Callable[[str, str], None]
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._block_tokens = block_tokens
        self._report = report
        self._plans: dict[str, _Plan] = {}

    def find(
        self,
        request_id: str,
        prompt: Sequence[int],
        *,
        salt: str,
        kept: KeptText | None,
        num_computed: int,
        num_tokens: int,
    ) -> int:
        """How many tokens beyond the `num_computed` first can be loaded: whole blocks in a row.

        Asked again it looks again, and promises nothing; `expect` does. At least one of the request's
        `num_tokens` is left to compute, for the engine needs something to sample from.
        """
        plan = self._plan(request_id, prompt, salt, kept)
        first = num_computed // self._block_tokens
        limit = min(plan.chain.num_blocks, (num_tokens - 1) // self._block_tokens)
        last = first
        while last < limit and self._store.has(plan.chain[last]):
            last += 1
        plan.first_loaded, plan.num_loaded, plan.is_load_due = first, last - first, False
        return plan.num_loaded * self._block_tokens

    def expect(self, request_id: str, num_tokens: int) -> None:
        """The engine made room for `num_tokens` of those found: they are loaded with the next step."""
        plan = self._plans.get(request_id)
        if plan is not None:
            plan.num_loaded = num_tokens // self._block_tokens
            plan.is_load_due = plan.num_loaded > 0

    def is_idle(self, request_id: str) -> bool:
        """Whether nothing is left to load or keep of the request."""
        plan = self._plans.get(request_id)
        return plan is None or not (plan.is_load_due or plan.num_settled < plan.num_kept)

    def take_loads(self, request_id: str, block_ids: Sequence[int]) -> list[BlockTransfer]:
        """What has to be loaded before this step; once only."""
        plan = self._plans.get(request_id)
        if plan is None or not plan.is_load_due:
            return []
        plan.is_load_due = False
        span = range(plan.first_loaded, plan.first_loaded + plan.num_loaded)
        return [BlockTransfer(plan.chain[index], block_ids[index]) for index in span]

    def take_saves(
        self, request_id: str, block_ids: Sequence[int], *, num_computed: int
    ) -> list[BlockTransfer]:
        """What has to be kept after this step, which ends with `num_computed` tokens computed."""
        plan = self._plans.get(request_id)
        if plan is None:
            return []
        span = range(plan.num_settled, min(plan.num_kept, num_computed // self._block_tokens))
        plan.num_settled = max(plan.num_settled, span.stop)
        return [
            BlockTransfer(plan.chain[index], block_ids[index])
            for index in span
            if not self._store.has(plan.chain[index])
        ]

    def fail(self, request_id: str, block_ids: Sequence[int], failed: Collection[int]) -> int | None:
        """Tokens that come from disk after all, where blocks of `failed` could not be loaded.

        What follows the first of them is computed, and offered to the store again. None where the
        request has none of them.
        """
        plan = self._plans.get(request_id)
        if plan is None:
            return None
        span = range(plan.first_loaded, plan.first_loaded + plan.num_loaded)
        # A request that was preempted has no blocks for now.
        held = zip(span, block_ids[plan.first_loaded :], strict=False)
        first = next((index for index, block_id in held if block_id in failed), None)
        if first is None:
            return None
        plan.num_loaded = first - plan.first_loaded
        plan.num_settled = min(plan.num_settled, first)
        return plan.num_loaded * self._block_tokens

    def finish(self, request_id: str) -> int:
        """Forget the request; how many of its tokens came from disk."""
        plan = self._plans.pop(request_id, None)
        return plan.num_loaded * self._block_tokens if plan else 0

    def _plan(self, request_id: str, prompt: Sequence[int], salt: str, kept: KeptText | None) -> _Plan:
        plan = self._plans.get(request_id)
        if plan is None:
            chain = KeyChain(self._namespace, salt, prompt, block_tokens=self._block_tokens)
            num_kept = min(chain.num_blocks, kept.num_tokens // self._block_tokens) if kept else 0
            plan = self._plans[request_id] = _Plan(chain, num_kept)
            if kept is not None and kept.label and num_kept:
                self._record(salt, kept.label, [chain[index] for index in range(num_kept)])
        return plan

    def _record(self, salt: str, label: str, keys: Sequence[str]) -> None:
        try:
            self._store.record(salt, label, keys)
        except OSError as error:
            self._report("record_failed", str(error))
