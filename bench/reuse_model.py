"""A Llama-style model whose keys and values can be put together from parts, in plain torch.

Only what `bench position_reuse` needs: one sequence, no batching. A row of the cache is written for
each token that is computed; attention of a computed token reads the rows of all tokens before it,
wherever those came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

Tensor = torch.Tensor


@dataclass(slots=True)
class KvRows:
    """Rotated keys, and values: `(num_layers, num_kv_heads, num_tokens, head_dim)` each."""

    keys: Tensor
    values: Tensor

    def span(self, start: int, end: int) -> KvRows:
        return KvRows(self.keys[:, :, start:end], self.values[:, :, start:end])

    def put(self, start: int, rows: KvRows) -> None:
        end = start + rows.keys.shape[2]
        self.keys[:, :, start:end] = rows.keys
        self.values[:, :, start:end] = rows.values


class ReuseModel:
    """SmolLM2, Llama or another model of that build; from `transformers`, on CPU in float32."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self._inner = model.model.eval()
        self._head = model.lm_head
        self._config = model.config

    @property
    def num_layers(self) -> int:
        return len(self._inner.layers)

    def empty(self, num_tokens: int) -> KvRows:
        heads, size = self._config.num_key_value_heads, self._config.head_dim
        return KvRows(*(torch.zeros(self.num_layers, heads, num_tokens, size) for _ in range(2)))

    @torch.inference_mode()
    def rotate(self, rows: KvRows, by: int) -> KvRows:
        """The rows as they were if their tokens stood `by` places later. Exact: rotations add up."""
        if not by:
            return rows
        cos, sin = self._angles(torch.tensor([by]))
        return KvRows(_rotated(rows.keys, cos, sin), rows.values)

    @torch.inference_mode()
    def compute(self, tokens: Tensor, rows: KvRows, chosen: Tensor) -> Tensor:
        """Fill in the rows of the tokens at places `chosen`; their last hidden states.

        Args:
            tokens: the whole sequence.
            rows: at least as long; those of other places are read as they are.
            chosen: ascending.
        """
        hidden = self._inner.embed_tokens(tokens[chosen])
        for layer in range(self.num_layers):
            hidden = self._layer(layer, hidden, rows, chosen)
        normed: Tensor = self._inner.norm(hidden)
        return normed

    @torch.inference_mode()
    def compute_deviating(
        self, tokens: Tensor, rows: KvRows, fixed: Tensor, reused: Tensor, share: float
    ) -> Tensor:
        """`compute` of the places `fixed` and of that share of `reused` whose rows are most wrong.

        As CacheBlend does it (arXiv 2405.16444): the first layer is computed of all, and the rows of
        the second, which then are exact, tell how far those reused are off.
        """
        everything = torch.cat((fixed, reused)).sort().values
        hidden = self._layer(0, self._inner.embed_tokens(tokens[everything]), rows, everything)
        keys, values = self._keys_and_values(1, hidden, everything)
        place = torch.searchsorted(everything, reused)
        off = (keys[:, place] - rows.keys[1][:, reused]).square().sum((0, 2))
        off += (values[:, place] - rows.values[1][:, reused]).square().sum((0, 2))
        worst = reused[off.topk(round(share * len(reused))).indices]
        chosen = torch.cat((fixed, worst)).sort().values
        hidden = hidden[torch.searchsorted(everything, chosen)]
        for layer in range(1, self.num_layers):
            hidden = self._layer(layer, hidden, rows, chosen)
        normed: Tensor = self._inner.norm(hidden)
        return normed

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        result: Tensor = self._head(hidden)
        return result

    def _layer(self, index: int, hidden: Tensor, rows: KvRows, chosen: Tensor) -> Tensor:
        layer = self._inner.layers[index]
        normed = layer.input_layernorm(hidden)
        queries = self._heads(layer.self_attn.q_proj(normed))
        cos, sin = self._angles(chosen)
        end = int(chosen[-1]) + 1
        keys, values = self._keys_and_values(index, hidden, chosen)
        rows.keys[index][:, chosen], rows.values[index][:, chosen] = keys, values
        sees = torch.arange(end)[None, :] <= chosen[:, None]
        attended = functional.scaled_dot_product_attention(
            _rotated(queries, cos, sin)[None],
            rows.keys[index][None, :, :end],
            rows.values[index][None, :, :end],
            attn_mask=sees,
            enable_gqa=True,
        )[0]
        hidden = hidden + layer.self_attn.o_proj(attended.transpose(0, 1).flatten(1))
        result: Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return result

    def _keys_and_values(self, index: int, hidden: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        layer = self._inner.layers[index]
        normed = layer.input_layernorm(hidden)
        keys = self._heads(layer.self_attn.k_proj(normed))
        return _rotated(keys, *self._angles(chosen)), self._heads(layer.self_attn.v_proj(normed))

    def _heads(self, projected: Tensor) -> Tensor:
        """`(num_tokens, …)` as `(num_heads, num_tokens, head_dim)`."""
        return projected.view(len(projected), -1, self._config.head_dim).transpose(0, 1)

    def _angles(self, places: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self._inner.rotary_emb(torch.zeros(1), places[None])
        return cos[0], sin[0]


def _rotated(vectors: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat((-second, first), dim=-1) * sin
