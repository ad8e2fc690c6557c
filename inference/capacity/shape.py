"""The dimensions of a decoder, from its `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InvalidInput, ModelUnavailable

# Families whose feed-forward has two matrices; all others have three (gate, up, down).
_UNGATED = frozenset({"gpt_neox", "gpt_bigcode", "opt", "phi", "starcoder2", "falcon", "mpt", "bloom"})
# Families that give queries, keys and values a bias without saying so.
_QKV_BIAS = frozenset({"qwen2", "qwen2_moe", "qwen2_vl"})
_QK_NORM = frozenset({"qwen3", "qwen3_moe"})


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What memory and speed follow from.

    Args:
        num_parameters: all of them; tied embeddings once.
        num_active: what a token is multiplied with: no embedding table, no head, chosen experts only.
        num_head: the output head's, multiplied where a token is sampled.
        num_embedding: of tables that stay in the model's own number type whatever the quantization.
        window: of the `num_window_layers` layers that look back so far and no further.
        latent_values: per token and layer, where attention keeps a compressed state in place of keys
            and values (MLA); 0 elsewhere.
        dtype: the number type the weights were saved in.
    """

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_position: int
    num_parameters: int
    num_active: int
    num_head: int
    num_embedding: int
    num_window_layers: int = 0
    window: int = 0
    latent_values: int = 0
    dtype: str = "bfloat16"
    quantization: str = ""

    @property
    def num_full_layers(self) -> int:
        return self.num_layers - self.num_window_layers


def read_config(path: Path) -> dict[str, Any]:
    """The `config.json` of a model folder, or that file itself.

    Raises:
        ModelUnavailable: there is none, or it is not JSON.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"{file} cannot be read as a model's config.json: {error}.",
            remedy="Prepare the model with `longleaf models prepare`, or name a folder that has one.",
        ) from error
    if not isinstance(document, dict):
        raise ModelUnavailable(f"{file} holds no object.", remedy="Name a model's folder.")
    return document


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """The shape that a `config.json` describes.

    Raises:
        InvalidInput: a dimension is missing, or is not a positive whole number.
    """
    text = dict(config) | dict(config.get("text_config") or {})  # models that also see nest it
    read = _Reader(text)
    hidden, layers = read.count("hidden_size"), read.count("num_hidden_layers")
    heads = read.count("num_attention_heads")
    kv_heads = read.count("num_key_value_heads", default=heads)
    head_dim = read.count("head_dim", default=hidden // heads)
    vocab = read.count("vocab_size")
    intermediate = read.count("intermediate_size", default=4 * hidden)
    attention, latent = _attention(text, read, hidden, heads, kv_heads, head_dim)
    dense, routed, active = _feed_forward(text, read, hidden, intermediate)
    num_dense = _num_dense_layers(text, layers) if routed else layers
    per_layer_norms = 2 * hidden + (2 * head_dim if text.get("model_type") in _QK_NORM else 0)
    linear = layers * attention + num_dense * dense + (layers - num_dense) * routed
    num_tables = 1 if text.get("tie_word_embeddings", config.get("tie_word_embeddings", True)) else 2
    num_window, window = _windows(text, layers)
    return ModelShape(
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        hidden_size=hidden,
        intermediate_size=intermediate,
        vocab_size=vocab,
        max_position=read.count("max_position_embeddings", default=1_000_000),
        num_parameters=linear + layers * per_layer_norms + hidden + num_tables * vocab * hidden,
        num_active=layers * attention + num_dense * dense + (layers - num_dense) * active,
        num_head=vocab * hidden,
        num_embedding=num_tables * vocab * hidden,
        num_window_layers=num_window,
        window=window,
        latent_values=latent,
        dtype=str(text.get("dtype") or text.get("torch_dtype") or "bfloat16"),
        quantization=_quantization(config),
    )


class _Reader:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    def count(self, name: str, *, default: int | None = None) -> int:
        value = self._config.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInput(
                f"The model's config.json has {name} = {value!r}, not a positive whole number.",
                remedy="The planner reads decoders in the form that transformers saves them.",
                field=name,
            )
        return value


def _attention(
    text: Mapping[str, Any], read: _Reader, hidden: int, heads: int, kv_heads: int, head_dim: int
) -> tuple[int, int]:
    """Parameters of a layer's attention, and values a token leaves in it where those are compressed."""
    if text.get("kv_lora_rank"):
        latent, rope = read.count("kv_lora_rank"), read.count("qk_rope_head_dim")
        nope, value = read.count("qk_nope_head_dim"), read.count("v_head_dim")
        query_rank = text.get("q_lora_rank") or 0
        queries = heads * (nope + rope)
        query = hidden * query_rank + query_rank * queries if query_rank else hidden * queries
        keys_values = hidden * (latent + rope) + latent * heads * (nope + value)
        return query + keys_values + heads * value * hidden, latent + rope
    width, kv_width = heads * head_dim, kv_heads * head_dim
    biased = text.get("attention_bias") or text.get("model_type") in _QKV_BIAS
    return 2 * hidden * width + 2 * hidden * kv_width + (width + 2 * kv_width if biased else 0), 0


def _feed_forward(
    text: Mapping[str, Any], read: _Reader, hidden: int, intermediate: int
) -> tuple[int, int, int]:
    """Parameters of a dense layer's feed-forward, of one with experts, and what of that a token meets."""
    num_matrices = 2 if text.get("model_type") in _UNGATED else 3
    dense = num_matrices * hidden * intermediate
    experts = text.get("num_local_experts") or text.get("num_experts") or text.get("n_routed_experts") or 0
    if not experts:
        return dense, 0, 0
    width = read.count("moe_intermediate_size", default=intermediate)
    expert = num_matrices * hidden * width
    shared = text.get("shared_expert_intermediate_size") or width * (text.get("n_shared_experts") or 0)
    always = num_matrices * hidden * shared + hidden * experts
    chosen = read.count("num_experts_per_tok", default=1)
    return dense, experts * expert + always, chosen * expert + always


def _num_dense_layers(text: Mapping[str, Any], layers: int) -> int:
    return min(layers, int(text.get("first_k_dense_replace") or len(text.get("mlp_only_layers") or ())))


def _windows(text: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """How many layers see a window only, and how long it is."""
    window = text.get("sliding_window")
    if not isinstance(window, int) or text.get("use_sliding_window") is False:
        return 0, 0
    types: Sequence[str] = text.get("layer_types") or ()
    if types:
        return sum(kind == "sliding_attention" for kind in types), window
    pattern = text.get("sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 1:  # every so-manieth layer sees all
        return layers - layers // pattern, window
    return layers, window


def _quantization(config: Mapping[str, Any]) -> str:
    return str((config.get("quantization_config") or {}).get("quant_method", ""))
