from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from core.clock import utc_now
from storage.models.base import Base


class Collection(Base):
    __tablename__ = "collections"
    __table_args__ = (
        Index(
            "uq_collections_live_name",
            "tenant_id",
            "name",
            unique=True,
            sqlite_where=text("deleted_at IS NULL"),
            postgresql_where=text("deleted_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    name: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    deleted_at: Mapped[datetime | None]


class Document(Base):
    """Distinct content of a collection. `status`: `processing`, `ready` or `failed`.

    The same bytes are one live document per collection, whatever names they came under
    (`UploadedFile.name`); `name` is the first. While `processing`, the job named by `job_id` works
    on it; another job may take it over once that one has ended. Of a static one the engine keeps what it
    computed beyond its restarts. Offsets everywhere count characters of the
    document's text, which is its pages' texts joined in order.
    """

    __tablename__ = "documents"
    __table_args__ = (
        Index(
            "uq_documents_live_content",
            "collection_id",
            "content_hash",
            unique=True,
            sqlite_where=text("deleted_at IS NULL"),
            postgresql_where=text("deleted_at IS NULL"),
        ),
        Index("ix_documents_listing", "collection_id", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"))
    name: Mapped[str]
    content_hash: Mapped[str]
    num_bytes: Mapped[int] = mapped_column(BigInteger)
    media_type: Mapped[str] = mapped_column(default="")
    title: Mapped[str] = mapped_column(default="")
    status: Mapped[str] = mapped_column(default="processing")
    num_pages: Mapped[int] = mapped_column(default=0)
    num_chunks: Mapped[int] = mapped_column(default=0)
    num_characters: Mapped[int] = mapped_column(default=0)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"))
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    warnings: Mapped[list[str]] = mapped_column(default=list)
    is_static: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    indexed_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]


class DocumentTag(Base):
    """A word that a tenant put on a document, to filter by."""

    __tablename__ = "document_tags"
    __table_args__ = (Index("ix_document_tags_tag", "tenant_id", "tag"),)

    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))


class Page(Base):
    """One page's text, characters `start` to `end` of the document's. Formats without pages have one, numbered 1.

    `layout` is compressed JSON of the lines' boxes (`storage/page_layout.py`), empty where the format
    has no positions.
    """

    __tablename__ = "pages"

    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str]
    start: Mapped[int]
    end: Mapped[int]
    text: Mapped[str]
    width: Mapped[float] = mapped_column(default=0.0)
    height: Mapped[float] = mapped_column(default=0.0)
    layout: Mapped[bytes] = mapped_column(LargeBinary, default=b"")


class Chunk(Base):
    """The unit embedded: characters `start` to `end` of its document."""

    __tablename__ = "chunks"
    __table_args__ = (UniqueConstraint("document_id", "position"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"), index=True)
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    position: Mapped[int]
    start: Mapped[int]
    end: Mapped[int]
    first_page: Mapped[int]
    last_page: Mapped[int]
    headings: Mapped[list[str]]
    text: Mapped[str]
    num_tokens: Mapped[int]
    num_generator_tokens: Mapped[int]


class Embedding(Base):
    """A tenant's vector of one text by one model revision, as fp16 bytes.

    FAISS segments are rebuilt from here without computing anything, and text seen before, in
    whatever document, is neither embedded nor billed again.
    """

    __tablename__ = "embeddings"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    model_revision: Mapped[str] = mapped_column(primary_key=True)
    text_hash: Mapped[str] = mapped_column(primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class IndexSegment(Base):
    """A FAISS file that readers may use. Rows appear and vanish in one transaction each."""

    __tablename__ = "index_segments"

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    collection_id: Mapped[str] = mapped_column(ForeignKey("collections.id"), index=True)
    model_revision: Mapped[str]
    kind: Mapped[str]
    num_vectors: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
