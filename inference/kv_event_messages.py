"""vLLM's messages about its cache (`vllm.distributed.kv_events`), without vLLM: bytes to `CacheEvent`s."""

from __future__ import annotations

from typing import Any

from inference.held_blocks import AllCleared, BlocksRemoved, BlocksStored, CacheEvent

_GPU = ("GPU", None)
"""The medium of the cache proper, on CPU too; others are what was offloaded from it."""


class Unfollowable(Exception):
    """The engine keeps its cache in a way that these events do not make known here."""


def decode_batch(payload: bytes, *, block_tokens: int) -> list[CacheEvent]:
    """What happened in one step of the engine, in order.

    Raises:
        Unfollowable: blocks of another size, several kinds of cache side by side, several engines
            behind one address, or a message of another form.
    """
    import msgspec

    try:
        _, events, *rank = msgspec.msgpack.decode(payload)
        if any(rank):
            raise Unfollowable("it runs data parallel")
        return [event for fields in events if (event := _event(fields, block_tokens)) is not None]
    except (ValueError, TypeError, KeyError, msgspec.MsgspecError) as error:
        raise Unfollowable(f"an event cannot be read: {error!r}") from error


def _event(fields: dict[str, Any], block_tokens: int) -> CacheEvent | None:
    kind = fields["type"]
    if kind == "AllBlocksCleared":
        return AllCleared()
    if fields.get("medium") not in _GPU:
        return None
    if fields.get("group_idx"):
        raise Unfollowable("its layers keep different caches")
    if kind == "BlockRemoved":
        return BlocksRemoved(fields["block_hashes"])
    if kind != "BlockStored":
        raise Unfollowable(f"it tells of {kind}")
    hashes, token_ids = fields["block_hashes"], fields["token_ids"]
    if fields["block_size"] != block_tokens or len(token_ids) != len(hashes) * block_tokens:
        raise Unfollowable(f"its blocks are not of {block_tokens} tokens")
    return BlocksStored(hashes, fields.get("parent_block_hash"), token_ids, _salts(fields))


def _salts(fields: dict[str, Any]) -> list[str | None]:
    """Of each block; vLLM names the salt among the extra keys of the block that begins a prompt."""
    extra_keys = fields.get("extra_keys") or [None] * len(fields["block_hashes"])
    is_root, salts = fields.get("parent_block_hash") is None, list[str | None]()
    for keys in extra_keys:
        if not keys:
            salts.append("")
        elif is_root and len(keys) == 1 and isinstance(keys[0], str) and not fields.get("lora_name"):
            salts.append(keys[0])
        else:
            salts.append(None)
        is_root = False
    return salts
