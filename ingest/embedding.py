"""Vectors for chunks: each text computed once per tenant and model, and billed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.ledger import Ledger, LedgerLine, Stage
from core.ids import DocumentId, content_hash
from inference.protocols import Embedder
from storage.database import Database
from storage.embeddings import EmbeddingRepository
from storage.job_run import JobRun

BATCH_TEXTS = 64
"""Texts between two commits: what a killed worker loses is at most this much computing."""


@dataclass(frozen=True, slots=True)
class ChunkEmbedder:
    """Embeds texts in batches, each committed with its ledger line before the next begins."""

    database: Database
    embedder: Embedder
    ledger: Ledger

    def embed(
        self,
        run: JobRun,
        document_id: DocumentId,
        texts: Sequence[str],
        *,
        on_progress: Callable[[int], None],
        on_reused: Callable[[int], None] = lambda _num_tokens: None,
    ) -> NDArray[np.float32]:
        """Vectors in the order of `texts`, (num_texts, dimension).

        Vectors the tenant has already are read, not computed. The rest is embedded shortest first,
        so that a batch holds texts of like length and little padding. They are rounded to fp16 as
        stored, so that an index rebuilt from SQL is the same to the bit.

        Args:
            on_progress: called with the number of texts done, after each commit.
            on_reused: called with the number of tokens that need not be embedded, where there are any.
        """
        hashes = [content_hash(text) for text in texts]
        by_hash = dict(zip(hashes, texts, strict=True))
        with self.database.read() as session:
            known = EmbeddingRepository(session, run.job.tenant_id).find(
                self.embedder.revision, list(by_hash)
            )
        missing = sorted(by_hash.keys() - known.keys(), key=lambda each: (len(by_hash[each]), each))
        done = len(texts) - len(missing)
        if done:
            new = {text_hash: by_hash[text_hash] for text_hash in missing}
            count = self.embedder.tokenizer.count
            on_reused(sum(map(count, texts)) - sum(map(count, new.values())))
        on_progress(done)
        for i in range(0, len(missing), BATCH_TEXTS):
            run.checkpoint()
            batch = missing[i : i + BATCH_TEXTS]
            known |= self._embed_batch(run, document_id, batch, [by_hash[h] for h in batch])
            done += len(batch)
            on_progress(done)
        if not hashes:
            return np.empty((0, self.embedder.dimension), dtype=np.float32)
        return np.stack([known[text_hash] for text_hash in hashes])

    def _embed_batch(
        self, run: JobRun, document_id: DocumentId, hashes: Sequence[str], texts: Sequence[str]
    ) -> dict[str, NDArray[np.float32]]:
        embedded = self.embedder.embed_passages(texts)
        vectors = embedded.vectors.astype(np.float16).astype(np.float32)
        by_hash = dict(zip(hashes, vectors, strict=True))
        tokens = dict(zip(hashes, embedded.num_tokens, strict=True))
        job = run.job
        with self.database.write() as session:
            added = EmbeddingRepository(session, job.tenant_id).add(self.embedder.revision, by_hash)
            self.ledger.record(
                session,
                job.tenant_id,
                [
                    LedgerLine(
                        source=f"embed:{document_id}:{content_hash(''.join(hashes))[:32]}",
                        attempt=1,
                        stage=Stage.EMBED,
                        model=self.embedder.name,
                        model_revision=self.embedder.revision,
                        num_tokens=sum(tokens[text_hash] for text_hash in added),
                        engine_seconds=embedded.seconds,
                        key_id=job.key_id,
                        job_id=job.id,
                        collection_id=job.collection_id,
                        document_id=document_id,
                    )
                ],
            )
        return by_hash
