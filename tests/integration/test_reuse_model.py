"""Rows put together from parts, on a small model with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bench.reuse_model import ReuseModel

TOKENS = torch.arange(5, 65)
EVERYTHING = torch.arange(len(TOKENS))


@pytest.fixture(scope="module")
def theirs() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=8,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def ours(theirs: Any, tmp_path_factory: pytest.TempPathFactory) -> ReuseModel:
    folder: Path = tmp_path_factory.mktemp("model")
    theirs.save_pretrained(folder)
    return ReuseModel(folder)


def test_a_full_computation_is_the_reference_s(ours: ReuseModel, theirs: Any) -> None:
    rows = ours.empty(len(TOKENS))
    logits = ours.logits(ours.compute(TOKENS, rows, EVERYTHING))
    with torch.inference_mode():
        reference = theirs(TOKENS[None], use_cache=True)
    assert torch.allclose(logits, reference.logits[0], atol=1e-5)
    assert torch.allclose(rows.keys[2], reference.past_key_values.layers[2].keys[0], atol=1e-5)


def test_rows_moved_are_those_computed_there(ours: ReuseModel, theirs: Any) -> None:
    rows = ours.empty(len(TOKENS))
    ours.compute(TOKENS, rows, EVERYTHING)
    with torch.inference_mode():
        there = theirs(TOKENS[None], position_ids=EVERYTHING[None] + 9, use_cache=True)
    moved = ours.rotate(rows, 9)
    assert torch.allclose(moved.keys[1], there.past_key_values.layers[1].keys[0], atol=1e-4)
    assert torch.equal(moved.values, rows.values)


def test_computing_what_was_wrong_mends_everything(ours: ReuseModel) -> None:
    rows = ours.empty(len(TOKENS))
    exact = ours.compute(TOKENS, rows, EVERYTHING)
    for mend in ("all", "deviating"):
        spoilt = ours.empty(len(TOKENS))
        spoilt.put(0, rows)
        spoilt.keys[:, :, 20:25] += 1.0
        fixed, reused = torch.cat((EVERYTHING[:10], EVERYTHING[40:])), EVERYTHING[10:40]
        if mend == "all":
            hidden = ours.compute(TOKENS, spoilt, EVERYTHING)[-20:]
        else:  # the five that are wrong are a sixth of those reused
            ours.compute(TOKENS, spoilt, EVERYTHING[:10])
            hidden = ours.compute_deviating(TOKENS, spoilt, fixed, reused, 5 / 30)[-20:]
        assert torch.allclose(hidden, exact[-20:], atol=1e-4)
