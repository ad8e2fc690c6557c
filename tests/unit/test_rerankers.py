"""The cross-encoder, on a model of two layers that knows nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from core.errors import Misconfigured, ModelUnavailable
from inference.registry import FolderSource, find_model
from inference.rerankers import load_reranker

QUESTION = "how long is the river 这条河有多长"
PASSAGES = ["the river is long", "这条河很长", "", "the road " * 200]


def write_model(folder: Path, *, num_labels: int = 1) -> Path:
    """A cross-encoder over characters, its weights drawn at random."""
    folder.mkdir()
    characters = sorted({*"abcdefghijklmnopqrstuvwxyz ", *"这条河有多长很"})
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *characters])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Split("", "isolated")
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=96,
        num_labels=num_labels,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny-reranker")


def test_a_score_a_passage_in_the_order_given_however_they_are_batched(model: Path, tmp_path: Path) -> None:
    reranker = load_reranker(str(model), tmp_path)
    together = reranker.rerank(QUESTION, PASSAGES)
    apart = [float(reranker.rerank(QUESTION, [passage]).scores[0]) for passage in PASSAGES]
    assert together.scores.shape == (4,)
    assert together.scores.dtype == np.float32
    np.testing.assert_allclose(together.scores, apart, atol=1e-4)
    assert len(set(apart)) == 4


def test_tokens_are_those_that_were_computed_and_long_pairs_are_cut(model: Path, tmp_path: Path) -> None:
    reranker = load_reranker(str(model), tmp_path)
    short, long = reranker.rerank("ab", ["cd"]), reranker.rerank("ab", [PASSAGES[3]])
    assert short.num_tokens == 7  # [CLS] a b [SEP] c d [SEP]
    assert long.num_tokens == 96


def test_nothing_to_read_gives_no_scores(model: Path, tmp_path: Path) -> None:
    found = load_reranker(str(model), tmp_path).rerank(QUESTION, [])
    assert (len(found.scores), found.num_tokens) == (0, 0)


def test_threads_share_one_reranker(model: Path, tmp_path: Path) -> None:
    reranker = load_reranker(str(model), tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: reranker.rerank(QUESTION, PASSAGES).scores, range(8)))
    for scores in found:
        np.testing.assert_allclose(scores, found[0], atol=1e-6)


def test_its_name_and_revision_are_the_folder_and_its_files(model: Path, tmp_path: Path) -> None:
    reranker = load_reranker(str(model), tmp_path)
    assert reranker.name == str(model)
    assert reranker.revision == load_reranker(str(model), tmp_path).revision
    assert len(reranker.revision) == 16


def test_a_classifier_of_several_classes_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "reranker-of-three", num_labels=3)
    with pytest.raises(ModelUnavailable, match="3 scores"):
        load_reranker(str(folder), tmp_path)


def test_a_reranker_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="not prepared"):
        load_reranker("BAAI/bge-reranker-v2-m3", tmp_path)
    with pytest.raises(Misconfigured):
        load_reranker("multilingual-e5-small", tmp_path)


def test_names_tell_rerankers_from_embedders_and_generators(model: Path) -> None:
    for name in (
        "BAAI/bge-reranker-v2-m3",
        "cross-encoder/ms-marco-MiniLM-L6-v2",
        "Qwen/Qwen3-Reranker-0.6B",
    ):
        assert find_model(name).role == "reranker"
    spec = find_model(str(model))
    assert spec.role == "reranker"
    assert spec.source == FolderSource(model)
    assert find_model("BAAI/bge-m3").role == "embedder"
