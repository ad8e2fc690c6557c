"""Names of KV blocks: a hash chain over what a block's values depend on."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Mapping, Sequence

KEY_BYTES = 20


def namespace_of(identity: Mapping[str, object]) -> str:
    """A name for all blocks of one model in one layout; it changes with any value of `identity`.

    Blocks of different namespaces never mix: other weights, another number format or another
    arrangement in memory make other bytes of the same tokens.
    """
    canonical = json.dumps(identity, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


class KeyChain:
    """Keys of a prompt's whole blocks, hashed as far as they are asked for.

    A block's key covers namespace, salt and every token up to the block's end, since attention
    makes its values depend on all of them. Another salt is another chain from the first block on.
    """

    def __init__(self, namespace: str, salt: str, token_ids: Sequence[int], *, block_tokens: int) -> None:
        self.num_blocks = len(token_ids) // block_tokens
        self._token_ids = token_ids
        self._block_tokens = block_tokens
        self._parent = _digest(json.dumps([namespace, salt]).encode())
        self._keys: list[str] = []

    def __getitem__(self, index: int) -> str:
        """The key of block `index`, hexadecimal.

        Raises:
            IndexError: there is no such whole block.
        """
        if not 0 <= index < self.num_blocks:
            raise IndexError(index)
        while len(self._keys) <= index:
            start = len(self._keys) * self._block_tokens
            tokens = array("q", self._token_ids[start : start + self._block_tokens])
            self._parent = _digest(self._parent + tokens.tobytes())
            self._keys.append(self._parent.hex())
        return self._keys[index]


def manifest_name(salt: str, label: str) -> str:
    """The name of the list of blocks kept under `label`; the same label of another salt has another."""
    return _digest(json.dumps([salt, label]).encode()).hex()


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=KEY_BYTES).digest()
