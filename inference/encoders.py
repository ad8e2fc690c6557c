"""Embedders through sentence-transformers. The only module of the house that loads torch."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer as FastTokenizer

from core.errors import ModelUnavailable
from core.precedence import current_precedence
from inference.batches import batches_by_length
from inference.manifest import read_manifest
from inference.openvino_encoder import ARITHMETIC, OpenVinoTransformer, load_openvino_model
from inference.prepare import Backend, is_prepared, model_path
from inference.protocols import Embeddings
from inference.registry import ModelSpec, Prompts, find_model
from inference.tokenizers import HuggingFaceTokenizer, load_input_tokenizer

# Padded tokens of one batch. More adds no speed on CPU, and a question that comes in waits for
# the batch at work.
MAX_BATCH_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """What an embedder calls itself in the ledger and in indexes."""

    name: str
    revision: str
    prompts: Prompts


class SentenceTransformerEmbedder:
    """Embedder around a sentence-transformers model; safe to share between threads."""

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        identity: EncoderIdentity,
        tokenizer: HuggingFaceTokenizer,
        input_tokenizer: FastTokenizer,
        max_input_tokens: int,
    ) -> None:
        self._model = model
        self._identity = identity
        self._tokenizer = tokenizer
        self._input_tokenizer = input_tokenizer
        self._dimension = int(model.get_embedding_dimension() or 0)
        overhead = len(input_tokenizer.encode(identity.prompts.passage + "x")) - 1
        self._max_tokens = max_input_tokens - overhead
        # transformers' tokenizers do not bear two threads at once ("Already borrowed"). One batch
        # uses all the cores, so nothing is lost; the lock is per batch, so nobody waits long.
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        return self._identity.name

    @property
    def revision(self) -> str:
        return self._identity.revision

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    @property
    def tokenizer(self) -> HuggingFaceTokenizer:
        return self._tokenizer

    def embed_passages(self, texts: Sequence[str]) -> Embeddings:
        return self._embed(texts, self._identity.prompts.passage)

    def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        return self._embed(texts, self._identity.prompts.query)

    def _embed(self, texts: Sequence[str], prompt: str) -> Embeddings:
        lengths = self._input_lengths(texts, prompt)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        seconds = 0.0
        for batch in batches_by_length(lengths, max_tokens=MAX_BATCH_TOKENS):
            current_precedence().give_way()
            started = time.perf_counter()
            vectors[batch] = self._encode([texts[i] for i in batch], prompt)
            seconds += time.perf_counter() - started
        return Embeddings(vectors, tuple(lengths), seconds)

    def _input_lengths(self, texts: Sequence[str], prompt: str) -> list[int]:
        """Tokens of each input as the model sees it, padding aside."""
        encodings = self._input_tokenizer.encode_batch_fast([prompt + text for text in texts])
        return [sum(encoding.attention_mask) for encoding in encodings]

    def _encode(self, texts: list[str], prompt: str) -> NDArray[np.float32]:
        with self._turn:
            vectors: NDArray[np.float32] = self._model.encode(
                texts,
                prompt=prompt,
                batch_size=len(texts),
                normalize_embeddings=True,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return vectors


def load_embedder(
    model: str, model_dir: Path, *, backend: Backend = "openvino", num_threads: int = 0
) -> SentenceTransformerEmbedder:
    """The embedder of that registry name, Hugging Face id or folder.

    `num_threads` 0 uses every core. `torch` takes a GPU where there is one.

    Raises:
        ModelUnavailable: the model is not prepared.
        Misconfigured: no embedder has that name.
    """
    spec = find_model(model, role="embedder")
    folder = model_path(spec, model_dir)
    manifest = read_manifest(folder)
    if manifest is None or not is_prepared(spec, model_dir, backend=backend):
        raise ModelUnavailable(
            f"Embedder {spec.name} is not prepared in {model_dir} for {backend}.",
            remedy="Run longleaf models prepare.",
            model=spec.name,
        )
    loaded = _load_model(folder, backend=backend, num_threads=num_threads)
    prompts = spec.prompts if spec.prompts is not None else _own_prompts(folder)
    max_tokens = _max_input_tokens(loaded, spec)
    return SentenceTransformerEmbedder(
        loaded,
        identity=EncoderIdentity(spec.name, _revision(manifest.revision, backend, prompts), prompts),
        tokenizer=HuggingFaceTokenizer(folder),
        input_tokenizer=_input_tokenizer(loaded, folder, max_tokens=max_tokens),
        max_input_tokens=max_tokens,
    )


def _load_model(folder: Path, *, backend: Backend, num_threads: int) -> SentenceTransformer:
    if backend == "openvino":
        return load_openvino_model(folder, num_threads=num_threads)
    if num_threads:
        torch.set_num_threads(num_threads)
    model = SentenceTransformer(
        str(folder),
        local_files_only=True,
        model_kwargs={"dtype": torch.float32},
        processor_kwargs={"split_special_tokens": True},  # typed special tokens are text
    )
    return model.eval()


def _input_tokenizer(model: SentenceTransformer, folder: Path, *, max_tokens: int) -> FastTokenizer:
    first = model[0]
    if isinstance(first, OpenVinoTransformer):
        return first.tokenizer
    return load_input_tokenizer(folder, max_tokens=max_tokens)


def _max_input_tokens(model: SentenceTransformer, spec: ModelSpec) -> int:
    own = model.max_seq_length or spec.max_tokens or 512
    return min(own, spec.max_tokens or own)


def _own_prompts(folder: Path) -> Prompts:
    """What `config_sentence_transformers.json` calls query and document (or passage)."""
    path = folder / "config_sentence_transformers.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    named = config.get("prompts") or {}
    return Prompts(
        query=named.get("query") or "", passage=named.get("document") or named.get("passage") or ""
    )


def _revision(model_revision: str, backend: Backend, prompts: Prompts) -> str:
    """Short hash over all that shapes the vectors."""
    arithmetic = sorted(ARITHMETIC.items()) if backend == "openvino" else "fp32"
    whole = repr((model_revision, backend, arithmetic, prompts.query, prompts.passage))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]
