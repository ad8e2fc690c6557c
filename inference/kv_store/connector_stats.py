"""What the store did, among vLLM's own metrics: `longleaf:kv_store_blocks_total{event=…}`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

EVENTS = ("loaded", "load_failed", "written", "write_failed", "dropped", "record_failed")


@dataclass
class StoreStats(KVConnectorStats):  # type: ignore[misc]  # vLLM is not type-checked here
    """Counts of events since they were last taken."""

    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.data = state["data"]
        self._lock = threading.Lock()

    def count(self, event: str, number: int) -> None:
        if number:
            with self._lock:
                self.data[event] = self.data.get(event, 0) + number

    def take(self) -> StoreStats | None:
        """What was counted, which begins anew; None for nothing."""
        with self._lock:
            data, self.data = self.data, {}
        return StoreStats(data=data) if data else None

    def reset(self) -> None:
        self.data = {}

    def aggregate(self, other: KVConnectorStats) -> StoreStats:
        for event, number in other.data.items():
            self.count(event, number)
        return self

    def reduce(self) -> dict[str, int | float]:
        return dict(self.data)

    def is_empty(self) -> bool:
        return not self.data


class StoreMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """The counts as a Prometheus counter for each engine and event."""

    def __init__(
        self, vllm_config: Any, metric_types: Any, labelnames: Any, per_engine_labelvalues: Any
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        counter = metric_types[Counter](
            name="longleaf:kv_store_blocks",
            documentation="Blocks of the KV store, by what happened to them.",
            labelnames=[*labelnames, "event"],
        )
        self._counters = {
            (engine, event): counter.labels(*values, event)
            for engine, values in per_engine_labelvalues.items()
            for event in EVENTS
        }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for event, number in transfer_stats_data.items():
            counter = self._counters.get((engine_idx, event))
            if counter is not None:
                counter.inc(number)
