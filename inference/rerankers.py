"""Cross-encoders through sentence-transformers: question and passage read together."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer as FastTokenizer

from core.errors import ModelUnavailable
from core.precedence import current_precedence
from inference.batches import batches_by_length
from inference.manifest import hash_files, read_manifest, revision_of
from inference.prepare import is_prepared, model_path
from inference.protocols import RerankScores
from inference.registry import find_model
from inference.tokenizers import load_input_tokenizer

MAX_BATCH_TOKENS = 4096
_LONGEST = 512  # tokens of question and passage, where the model does not say less


class CrossEncoderReranker:
    """`Reranker` around a sentence-transformers cross-encoder; safe to share between threads.

    Scores are what the model gives, through its own activation: they order passages, and compare
    between questions no better than the model was trained for.
    """

    def __init__(
        self, model: CrossEncoder, *, name: str, revision: str, input_tokenizer: FastTokenizer
    ) -> None:
        self._model = model
        self._name = name
        self._revision = revision
        self._input_tokenizer = input_tokenizer
        self._turn = threading.Lock()  # as with encoders: tokenizers do not bear two threads at once

    @property
    def name(self) -> str:
        return self._name

    @property
    def revision(self) -> str:
        return self._revision

    def rerank(self, question: str, passages: Sequence[str]) -> RerankScores:
        """One score a passage, in the order given; a pair beyond the model's window is cut."""
        pairs = [(question, passage) for passage in passages]
        lengths = [sum(e.attention_mask) for e in self._input_tokenizer.encode_batch_fast(pairs)]
        scores = np.empty(len(pairs), dtype=np.float32)
        seconds = 0.0
        for batch in batches_by_length(lengths, max_tokens=MAX_BATCH_TOKENS):
            current_precedence().give_way()
            started = time.perf_counter()
            with self._turn:
                found = self._model.predict(
                    [pairs[i] for i in batch], batch_size=len(batch), show_progress_bar=False
                )
            seconds += time.perf_counter() - started
            scores[batch] = np.asarray(found, dtype=np.float32).reshape(len(batch))
        return RerankScores(scores, sum(lengths), seconds)


def load_reranker(model: str, model_dir: Path, *, num_threads: int = 0) -> CrossEncoderReranker:
    """The cross-encoder of that registry name, Hugging Face id or folder.

    `num_threads` 0 uses every core; a GPU is taken where there is one.

    Raises:
        ModelUnavailable: the model is not prepared, or gives more than one score a pair.
        Misconfigured: no reranker has that name.
    """
    spec = find_model(model, role="reranker")
    folder = model_path(spec, model_dir)
    if not is_prepared(spec, model_dir):
        raise ModelUnavailable(
            f"Reranker {spec.name} is not prepared in {model_dir}.",
            remedy="Run longleaf models prepare.",
            model=spec.name,
        )
    if num_threads:
        torch.set_num_threads(num_threads)
    max_tokens = min(spec.max_tokens or _LONGEST, _window(folder))
    loaded = CrossEncoder(
        str(folder),
        local_files_only=True,
        max_length=max_tokens,
        model_kwargs={"dtype": torch.float32},
        processor_kwargs={"split_special_tokens": True},  # typed special tokens are text
    )
    if loaded.num_labels != 1:
        raise ModelUnavailable(
            f"{spec.name} gives {loaded.num_labels} scores a pair; a reranker gives one.",
            remedy="Use a cross-encoder that was trained for ranking.",
            model=spec.name,
        )
    return CrossEncoderReranker(
        loaded,
        name=spec.name,
        revision=_revision(folder),
        input_tokenizer=load_input_tokenizer(folder, max_tokens=max_tokens),
    )


def _window(folder: Path) -> int:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    positions = int(config.get("max_position_embeddings") or _LONGEST)
    # RoBERTa's positions begin after its padding id.
    return positions - 2 if config.get("model_type") in {"roberta", "xlm-roberta"} else positions


def _revision(folder: Path) -> str:
    """That of the prepared folder; of one used in place, a hash of its files but for their dates."""
    manifest = read_manifest(folder)
    if manifest is not None:
        return manifest.revision
    return revision_of(hash_files((p for p in folder.iterdir() if p.is_file()), root=folder))
