"""Writes the unpacked model as a sentence-transformers folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from inference.packed_e5.reader import PackedE5
from inference.packed_e5.tokenizer import tokenizer_config, tokenizer_json
from inference.registry import Prompts

_EMBEDDINGS = {
    "emb.word": "word_embeddings.weight",
    "emb.pos": "position_embeddings.weight",
    "emb.type": "token_type_embeddings.weight",
    "emb.ln.w": "LayerNorm.weight",
    "emb.ln.b": "LayerNorm.bias",
}
_LAYER_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))


def write_sentence_transformer(packed: PackedE5, folder: Path, *, prompts: Prompts) -> None:
    """Fill `folder` with a BERT encoder, mean pooling and L2 normalization.

    Weights go to disk in fp16 (half the bytes; 4-bit weights lose nothing by it) and are read
    as fp32, which `config.json` asks for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    size = packed.dimensions
    save_file(_bert_tensors(packed), folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", _bert_config(packed))
    _write_json(folder / "tokenizer.json", tokenizer_json(packed.pieces))
    _write_json(folder / "tokenizer_config.json", tokenizer_config(packed.pieces, max_tokens=size.positions))
    _write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": size.positions, "do_lower_case": False}
    )
    _write_json(folder / "modules.json", [_module(i, path, kind) for i, (path, kind) in enumerate(_MODULES)])
    _write_json(
        folder / "1_Pooling" / "config.json",
        {"embedding_dimension": size.hidden, "pooling_mode": "mean", "include_prompt": True},
    )
    (folder / "2_Normalize").mkdir(exist_ok=True)
    _write_json(
        folder / "config_sentence_transformers.json",
        {
            "prompts": {"query": prompts.query, "document": prompts.passage},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    )


def _bert_tensors(packed: PackedE5) -> dict[str, NDArray[np.float16]]:
    size = packed.dimensions
    tensors = {
        f"embeddings.{name}": _shaped(packed, ours, width=size.hidden) for ours, name in _EMBEDDINGS.items()
    }
    for layer in range(size.layers):
        for ours, name in _LAYER_PARTS.items():
            width = size.feed_forward if ours == "fo" else size.hidden
            target = f"encoder.layer.{layer}.{name}"
            tensors[f"{target}.weight"] = _shaped(packed, f"l{layer}.{ours}.w", width=width)
            tensors[f"{target}.bias"] = _shaped(packed, f"l{layer}.{ours}.b", width=width)
    # Mean pooling never asks BERT's pooler; zeros keep transformers from drawing random weights.
    tensors["pooler.dense.weight"] = np.zeros((size.hidden, size.hidden), np.float16)
    tensors["pooler.dense.bias"] = np.zeros(size.hidden, np.float16)
    return tensors


def _shaped(packed: PackedE5, name: str, *, width: int) -> NDArray[np.float16]:
    """A matrix as (outputs, inputs), `width` being its inputs; biases and LayerNorms stay flat."""
    flat = packed.tensors[name].astype(np.float16)
    is_vector = name.endswith(".b") or "ln." in name
    return flat if is_vector else flat.reshape(-1, width)


def _bert_config(packed: PackedE5) -> dict[str, object]:
    size, pieces = packed.dimensions, packed.pieces
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "intermediate_size": size.feed_forward,
        "vocab_size": size.vocabulary,
        "max_position_embeddings": size.positions,
        "type_vocab_size": size.token_types,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "attention_probs_dropout_prob": 0.1,
        "hidden_dropout_prob": 0.1,
        "initializer_range": 0.02,
        "pad_token_id": pieces.pad,
        "bos_token_id": pieces.bos,
        "eos_token_id": pieces.eos,
        "dtype": "float32",
        "transformers_version": "5.0.0",  # the format of this file, not who wrote it
    }


def _module(index: int, path: str, kind: str) -> dict[str, object]:
    return {
        "idx": index,
        "name": str(index),
        "path": path,
        "type": f"sentence_transformers.models.{kind}",
    }


def _write_json(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
