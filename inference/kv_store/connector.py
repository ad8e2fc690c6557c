"""The store as a KV connector of vLLM 0.32, named to it by module path; imported by vLLM alone.

Both halves of the interface are here: the scheduler's decides from tokens and file names
(`request_plans`), the worker's moves bytes (`kv_memory`, `block_writer`). Loading is synchronous,
before the step that reads it: it takes a fraction of a prefill step's time, and so it needs no state
of waiting. What cannot be read is reported, and vLLM computes from the first such block on.

An exception that left this module would end the engine, so whatever touches the disk is caught here,
logged, and turns the store off. Never so between a promise to load and the load: there a silent
failure would make wrong text, so blocks are reported as failed, or the engine does end.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)
from vllm.logger import init_logger
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig
from vllm.v1.metrics.cache_hit_source import CacheHitSource

from inference.kv_store.block_file import DamagedBlock
from inference.kv_store.block_keys import namespace_of
from inference.kv_store.block_store import BlockStore, sweep
from inference.kv_store.block_writer import BlockWriter
from inference.kv_store.connector_stats import StoreMetrics, StoreStats
from inference.kv_store.engine_identity import engine_identity
from inference.kv_store.failed_steps import FailedSteps
from inference.kv_store.kept_text import KeptText, loaded_json
from inference.kv_store.kv_memory import KvMemory
from inference.kv_store.request_plans import BlockTransfer, RequestPlans

log = init_logger("vllm.longleaf.kv_store")

_READ_THREADS = 4
_GIB = 1024**3


@dataclass
class StoreMetadata(KVConnectorMetadata):  # type: ignore[misc]  # vLLM is not type-checked here
    """What the scheduler has the worker do in one step; see `FailedSteps` about the numbers."""

    step: int = 0
    heard_until: int = -1
    loads: list[BlockTransfer] = field(default_factory=list)
    saves: list[BlockTransfer] = field(default_factory=list)


class BlockStoreConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """Keeps blocks of static text on disk and loads them instead of computing them.

    `kv_connector_extra_config`: `folder`, `max_bytes`, `min_free_bytes`.
    """

    _cache_hit_source = CacheHitSource.DISK

    def __init__(
        self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig
    ) -> None:
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        self._is_on = False
        self._stats = StoreStats()
        self._rank = vllm_config.parallel_config.rank
        self._loading: dict[str, Any] = {}  # requests by id, some of whose blocks come from disk
        self._failed_block_ids: set[int] = set()
        self._failed_steps = FailedSteps()
        self._step = 0
        self._heard_until = -1
        self._memory: KvMemory | None = None
        self._plans: RequestPlans | None = None
        self._writer: BlockWriter | None = None
        groups = kv_cache_config.kv_cache_groups
        # Elsewhere a block's number means another thing in each group, or no whole prefix is kept.
        if len(groups) != 1 or not isinstance(groups[0].kv_cache_spec, FullAttentionSpec):
            log.warning("The KV store is off: it is for models with full attention in all layers.")
            return
        with self._guard("starting"):
            self._open(vllm_config, role, kv_cache_config)
            self._is_on = True

    def _open(self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig) -> None:
        options = vllm_config.kv_transfer_config.kv_connector_extra_config
        folder, max_bytes = Path(options["folder"]), int(options["max_bytes"])
        namespace = namespace_of(engine_identity(vllm_config, kv_cache_config))
        self._payload_bytes = sum(
            tensor.size // kv_cache_config.num_blocks for tensor in kv_cache_config.kv_cache_tensors
        )
        self._store = BlockStore(
            folder,
            namespace,
            payload_bytes=self._payload_bytes,
            num_ranks=vllm_config.parallel_config.world_size,
            max_bytes=max_bytes,
            min_free_bytes=int(options.get("min_free_bytes", 0)),
        )
        if role == KVConnectorRole.SCHEDULER:
            block_tokens = kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
            self._plans = RequestPlans(self._store, namespace, block_tokens=block_tokens, report=self._report)
            sweep(folder)
            log.info("KV blocks of static text are kept in %s, at most %.1f GiB.", folder, max_bytes / _GIB)
        else:
            self._readers = ThreadPoolExecutor(_READ_THREADS, thread_name_prefix="kv-store-reader")
            self._writer = BlockWriter(self._store, rank=self._rank, report=self._report)

    @property
    def requires_kv_delivery(self) -> bool:
        """No: what is not kept is computed again."""
        return False

    # The scheduler's half.

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        if not self._is_on or self._plans is None or not _is_text_only(request):
            return 0, False
        with self._guard("looking for blocks"):
            found = self._plans.find(
                request.request_id,
                request.prompt_token_ids,
                salt=request.cache_salt or "",
                kept=KeptText.of_json(request.kv_transfer_params),
                num_computed=num_computed_tokens,
                num_tokens=request.num_tokens,
            )
            return found, False
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if self._plans is not None and num_external_tokens:
            self._loading[request.request_id] = request
            self._plans.expect(request.request_id, num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> StoreMetadata:
        self._step += 1
        metadata = StoreMetadata(step=self._step, heard_until=self._heard_until)
        plans = self._plans
        if plans is None:
            return metadata
        cached = scheduler_output.scheduled_cached_reqs
        steps = [(new.req_id, new.num_computed_tokens) for new in scheduler_output.scheduled_new_reqs]
        steps += zip(cached.req_ids, cached.num_computed_tokens, strict=True)
        for request_id, num_computed in steps:
            if plans.is_idle(request_id):
                continue
            (block_ids,) = scheduler_output.kv_connector_block_state.get_block_ids(request_id)
            metadata.loads += plans.take_loads(request_id, block_ids)
            num_computed += scheduler_output.num_scheduled_tokens[request_id]
            with self._guard("choosing blocks to keep"):
                metadata.saves += plans.take_saves(request_id, block_ids, num_computed=num_computed)
        return metadata

    def update_connector_output(self, connector_output: Any) -> None:
        failed = connector_output.invalid_block_ids
        if failed:
            self._heard_until = self._step
        if failed and self._plans is not None:
            with self._guard("recounting"):
                self._recount(self._plans, failed)

    def _recount(self, plans: RequestPlans, failed: set[int]) -> None:
        """vLLM counted tokens as cached that it has to compute after all: have usage say so."""
        for request_id, request in self._loading.items():
            (block_ids,) = self._kv_cache_manager.get_block_ids(request_id)
            num_loaded = plans.fail(request_id, block_ids, failed)
            stats = request.prefill_stats
            if num_loaded is not None and stats is not None:
                stats.set(
                    num_prompt_tokens=stats.num_prompt_tokens,
                    num_local_cached_tokens=stats.num_local_cached_tokens,
                    num_external_cached_tokens=num_loaded,
                )

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        self._loading.pop(request.request_id, None)
        num_loaded = self._plans.finish(request.request_id) if self._plans is not None else 0
        is_asked = self._is_on and KeptText.of_json(request.kv_transfer_params) is not None
        return False, loaded_json(num_loaded) if is_asked else None

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, block_ids)

    # The worker's half.

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        if not self._is_on:
            return
        memory = KvMemory(kv_caches.values())
        if memory.payload_bytes == self._payload_bytes:
            self._memory = memory
        else:
            log.warning(
                "The KV store is off: a block has %d bytes, not %d as announced.",
                memory.payload_bytes,
                self._payload_bytes,
            )

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        metadata = self._get_connector_metadata()
        loads = metadata.loads
        if not loads:
            return
        failed = {load.block_id for load in loads}
        if self._is_on and self._memory is not None:
            with self._guard("loading"):
                outcomes = self._readers.map(self._load, loads)
                failed = {
                    load.block_id for load, is_there in zip(loads, outcomes, strict=True) if not is_there
                }
                self._store.touch([load.key for load in loads], rank=self._rank)
        self._failed_block_ids |= failed
        if failed:
            self._failed_steps.add(metadata.step)
        self._stats.count("loaded", len(loads) - len(failed))
        self._stats.count("load_failed", len(failed))

    def _load(self, transfer: BlockTransfer) -> bool:
        assert self._memory is not None
        buffer = bytearray(self._store.file_bytes)
        try:
            payload = self._store.read(transfer.key, buffer, rank=self._rank)
        except (OSError, DamagedBlock) as error:
            log.warning("A KV block is computed again: %s.", error)
            return False
        self._memory.load(transfer.block_id, payload)
        return True

    def wait_for_layer_load(self, layer_name: str) -> None:
        """All layers are there before the forward pass begins."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Blocks are saved whole, after the step."""

    def wait_for_save(self) -> None:
        if not self._is_on or self._memory is None or self._writer is None:
            return
        metadata = self._get_connector_metadata()
        if not self._failed_steps.may_save(metadata.heard_until):
            self._stats.count("dropped", len(metadata.saves))
            return
        with self._guard("saving"):
            for save in metadata.saves:
                # What does not fit now is offered again with the document's next question.
                if self._writer.has_room(self._store.file_bytes):
                    self._writer.offer(save.key, self._memory.save(save.block_id))
                else:
                    self._stats.count("dropped", 1)

    def get_block_ids_with_load_errors(self) -> set[int]:
        failed, self._failed_block_ids = self._failed_block_ids, set()
        return failed

    def get_kv_connector_stats(self) -> StoreStats | None:
        return self._stats.take()

    def shutdown(self) -> None:
        if self._writer is not None:
            self._writer.close()

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> StoreStats:
        return StoreStats(data=data or {})

    @classmethod
    def build_prom_metrics(
        cls, vllm_config: Any, metric_types: Any, labelnames: Any, per_engine_labelvalues: Any
    ) -> StoreMetrics:
        return StoreMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def _report(self, event: str, reason: str) -> None:
        self._stats.count(event, 1)
        if reason:
            log.warning("KV store: %s (%s).", event.replace("_", " "), reason)

    @contextmanager
    def _guard(self, doing: str) -> Iterator[None]:
        """Whatever goes wrong in the block turns the store off, and the engine goes on."""
        try:
            yield
        except Exception:
            log.exception("The KV store failed in %s and is off from now on.", doing)
            self._is_on = False


def _is_text_only(request: Any) -> bool:
    """Whether the request's values depend on its tokens alone, as keys take for granted."""
    return (
        request.prompt_token_ids is not None
        and request.prompt_embeds is None
        and not request.mm_features
        and request.lora_request is None
    )
