"""Attention of the packaged generator, read by transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from core.errors import EngineIncapable, JobCancelled, ModelUnavailable, TooLong
from inference.attention import TransformersAttentionReader
from inference.prepare import prepare_model
from inference.registry import find_model
from inference.tokenizers import HuggingFaceTokenizer

pytest.importorskip("transformers")

GIB = 2**30


@pytest.fixture(scope="module")
def folder(model_cache: Path) -> Path:
    return prepare_model(find_model("smollm2-135m-instruct"), model_cache)


def reader(
    folder: Path, *, max_tokens: int = 512, max_model_bytes: int = 4 * GIB
) -> TransformersAttentionReader:
    return TransformersAttentionReader(folder, max_tokens=max_tokens, max_model_bytes=max_model_bytes)


def nothing() -> None:
    """A checkpoint that lets go on."""


def segments(folder: Path, *texts: str) -> tuple[list[int], list[int]]:
    """Token ids of the texts together, and where each ends."""
    tokenizer = HuggingFaceTokenizer(folder)
    ids: list[int] = []
    ends = []
    for text in texts:
        ids += tokenizer.encode(text)
        ends.append(len(ids))
    return ids, ends


def test_a_copied_answer_looks_at_the_passage_that_it_copies(folder: Path) -> None:
    tulips = "Tulips grow in spring and need little water in heavy soil.\n"
    moons = "Neptune has fourteen known moons, of which Triton is the largest.\n"
    prompt, ends = segments(folder, "Read this.\n", tulips, moons, "Repeat what is said of Neptune.\n")
    answer, _ = segments(folder, "Neptune has fourteen known moons, of which Triton is the largest.")
    found = reader(folder).read(prompt, answer, segment_ends=ends, checkpoint=nothing)
    assert found.by_token.shape == (len(answer), 4)
    assert found.by_token.sum(axis=1) + found.own == pytest.approx(np.ones(len(answer)), abs=1e-4)
    assert found.own[0] == 0
    per_token = found.by_token.mean(axis=0) / np.diff([0, *ends])
    assert per_token[2] > 2 * per_token[1]


def test_an_answer_beyond_the_cap_is_read_as_far_as_it_goes_and_a_prompt_beyond_it_not(folder: Path) -> None:
    prompt, ends = segments(folder, "One two three four five six seven eight nine ten.")
    answer, _ = segments(folder, "Eleven twelve thirteen fourteen fifteen.")
    short = reader(folder, max_tokens=len(prompt) + 3)
    found = short.read(prompt, answer, segment_ends=ends, checkpoint=nothing)
    assert len(found.by_token) == 3
    with pytest.raises(TooLong, match="tokens"):
        reader(folder, max_tokens=len(prompt)).read(prompt, answer, segment_ends=ends, checkpoint=nothing)


def test_weights_that_are_too_large_or_not_there_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineIncapable, match="GiB"):
        reader(folder, max_model_bytes=1000).read([1], [2], segment_ends=[1], checkpoint=nothing)
    with pytest.raises(ModelUnavailable):
        reader(tmp_path).read([1], [2], segment_ends=[1], checkpoint=nothing)


def test_it_can_be_cancelled_between_slices(folder: Path) -> None:
    prompt, ends = segments(folder, "A prompt.")

    def cancelled() -> Callable[[], None]:
        raise JobCancelled("enough")

    with pytest.raises(JobCancelled):
        reader(folder).read(prompt, prompt, segment_ends=ends, checkpoint=cancelled)
