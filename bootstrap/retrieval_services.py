"""The embedder and what stands on the indexes, for workers and for the doctor."""

from __future__ import annotations

from accounting.ledger import Ledger
from core.settings import Settings
from inference.encoders import load_embedder
from inference.protocols import Embedder, Reranker
from inference.rerankers import load_reranker
from retrieval.dense_index import DenseIndex
from retrieval.lexical_index import LexicalIndex
from retrieval.maintenance import IndexMaintenance
from storage.database import Database


def build_embedder(settings: Settings) -> Embedder:
    """The configured embedder, loaded (seconds).

    Raises:
        ModelUnavailable: it is not prepared.
    """
    return load_embedder(
        settings.embedder,
        settings.model_dir,
        backend=settings.encoder_backend,
        num_threads=settings.num_encoder_threads,
    )


def build_cross_encoder(settings: Settings) -> Reranker | None:
    """The configured cross-encoder, loaded; None where none is configured.

    Raises:
        ModelUnavailable: it is not prepared.
    """
    if not settings.ask.reranker:
        return None
    return load_reranker(settings.ask.reranker, settings.model_dir, num_threads=settings.num_encoder_threads)


def build_maintenance(settings: Settings, database: Database) -> IndexMaintenance:
    """Maintenance with an embedder and indexes of its own, for a process that does nothing else."""
    return IndexMaintenance(
        database=database,
        embedder=build_embedder(settings),
        dense=DenseIndex(settings.index_dir),
        lexical=LexicalIndex(settings.index_dir),
        ledger=Ledger(),
    )
