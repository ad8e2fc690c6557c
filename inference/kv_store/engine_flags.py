"""vLLM's command line for keeping computed context: ours on CPU, its own tiers on GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from core.settings import MIB, EngineSettings

MODULE = "inference.kv_store.connector"
_MIN_FREE_BYTES = 512 * MIB  # of the disk is left to everybody else


def kv_store_flags(
    settings: EngineSettings, *, folder: Path | None, profile: Literal["cpu", "gpu"]
) -> tuple[str, ...]:
    """`--kv-transfer-config` with its value; nothing where nothing is to be kept."""
    if folder is None or "--kv-transfer-config" in settings.extra_args:
        return ()
    config = _our_store(settings, folder) if profile == "cpu" else _native_tiers(settings, folder)
    return ("--kv-transfer-config", json.dumps(config)) if config else ()


def _our_store(settings: EngineSettings, folder: Path) -> dict[str, Any] | None:
    if not settings.kv_store_bytes:
        return None
    return {
        "kv_connector": "BlockStoreConnector",
        "kv_connector_module_path": MODULE,
        "kv_role": "kv_both",
        # A block that cannot be read is computed; vLLM's default would fail the request.
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "folder": str(folder),
            "max_bytes": settings.kv_store_bytes,
            "min_free_bytes": _MIN_FREE_BYTES,
        },
    }


def _native_tiers(settings: EngineSettings, folder: Path) -> dict[str, Any] | None:
    """Main memory, and below it files: vLLM keeps what it computed in both by itself.

    Its file tier knows no quota (`trim_native_files` keeps one at each start) and goes through main
    memory, so there is none without it.
    """
    if not settings.kv_offload_bytes:
        return None
    tiers = [{"type": "fs", "root_dir": str(native_folder(folder))}] if settings.kv_store_bytes else []
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "spec_name": "TieringOffloadingSpec" if tiers else "CPUOffloadingSpec",
            "cpu_bytes_to_use": settings.kv_offload_bytes,
            **({"secondary_tiers": tiers} if tiers else {}),
        },
    }


def native_folder(folder: Path) -> Path:
    """Where vLLM's own file tier keeps its files."""
    return folder / "native"
