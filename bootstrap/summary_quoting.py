"""What a summary will take and cost, before it runs. Loads no model and reads no document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from accounting.stages import Stage
from bootstrap.model_defaults import ModelDefaults
from bootstrap.quoting import Quote, generator_spec, priced
from core.ids import CollectionId, DocumentId, SummaryId, TenantId
from core.settings import Settings
from generation.quotes import Forecast, Span
from generation.summaries.abstractive import SECTION_TOKENS
from generation.summaries.documents import section_room
from generation.summaries.parameters import SummaryParameters
from generation.summaries.registration import documents_to_read
from storage.chunks import ChunkRepository
from storage.summaries import SummaryRepository

_FRAME_TOKENS = 150  # instructions and labels of one node
_SENTENCE_FRAMES = 1.15  # each sentence is embedded with a prompt and two special tokens of its own


def quote_summary(
    session: Session,
    tenant_id: TenantId,
    settings: Settings,
    *,
    collection_id: CollectionId,
    parameters: SummaryParameters,
) -> Quote:
    """What summarizing this would take; raises as `register_summary` does.

    Expected is what documents take that the latest version has not read; at most, what all of them do,
    as when another model is served since.
    """
    document_ids = documents_to_read(session, tenant_id, collection_id, parameters)
    known = _read_before(session, tenant_id, collection_id, parameters)
    sizes = ChunkRepository(session, tenant_id).count_tokens(document_ids)
    writer = parameters.writer
    if writer == "auto":
        defaults = ModelDefaults.of(generator_spec(settings).num_parameters)
        writer = "extractive" if defaults.mode == "extractive" else "abstractive"
    new = [document_id for document_id in document_ids if document_id not in known]
    forecast = _forecast(writer, parameters, sizes, document_ids, new)
    basis = [f"tokens: {len(document_ids)} documents, {len(new)} of them not read by an earlier version"]
    return priced(session, tenant_id, settings, writer, forecast, (), basis)


def _read_before(
    session: Session, tenant_id: TenantId, collection_id: CollectionId, parameters: SummaryParameters
) -> frozenset[str]:
    summaries = SummaryRepository(session, tenant_id)
    latest = summaries.find_latest(parameters.definition(collection_id))
    if latest is None:
        return frozenset()
    return frozenset(row.document_id for row in summaries.all_parts(SummaryId(latest.id)))


def _forecast(
    writer: str,
    parameters: SummaryParameters,
    sizes: Mapping[DocumentId, tuple[int, int]],
    everything: Sequence[DocumentId],
    new: Sequence[DocumentId],
) -> Forecast:
    embedded, most_embedded = (
        round(_SENTENCE_FRAMES * sum(sizes.get(each, (0, 0))[0] for each in ids)) for ids in (new, everything)
    )
    forecast = {Stage.EMBED: Span(0, embedded, 2 * most_embedded)}
    if writer == "extractive":
        return forecast
    expected, most = (_generator_tokens(parameters, sizes, ids) for ids in (new, everything))
    return forecast | {
        Stage.PREFILL_UNCACHED: Span(0, expected[0], max(expected[0], round(1.5 * most[0]))),
        Stage.DECODE: Span(0, expected[1] // 2, max(expected[1], most[1])),
    }


def _generator_tokens(
    parameters: SummaryParameters, sizes: Mapping[DocumentId, tuple[int, int]], ids: Sequence[DocumentId]
) -> tuple[int, int]:
    """Prompt tokens, and tokens written at most."""
    target = parameters.target_tokens
    prompts = written = 0
    for document_id in ids:
        num_tokens = sizes.get(document_id, (0, 0))[1]
        num_sections = max(1, -(-num_tokens // SECTION_TOKENS))
        told = num_sections * section_room(target, num_sections)
        prompts += num_tokens + num_sections * _FRAME_TOKENS
        written += told
        if num_sections > 1:  # what they come to is read again, and said once
            prompts += told + _FRAME_TOKENS
            written += target
    if len(ids) > 1:
        prompts += len(ids) * target + _FRAME_TOKENS
        written += target
    return prompts, written
