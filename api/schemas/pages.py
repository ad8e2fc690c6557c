from __future__ import annotations

from pydantic import Field

from api.schemas.base import View


class DocumentPage(View):
    """One page of a document, with its place in the document's text."""

    document_id: str = Field(description="The document.")
    number: int = Field(description="From 1.")
    num_pages: int = Field(description="Pages of the document.")
    start: int = Field(description="Offset of its first character in the document's text.")
    end: int = Field(description="Offset after its last.")
    width: float = Field(description="In points (1/72 inch) as displayed; 0 where the format has no pages.")
    height: float = Field(description="In points.")
    text: str = Field(description="Its text, as citations count in it.")
