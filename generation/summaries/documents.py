"""One document's part in a summary: its sections become nodes, and these one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from core.ids import DocumentId
from core.language import is_chinese
from generation.citations import Quote
from generation.quotes import estimate_tokens
from generation.summaries.making import LimitReached, NodeMaker
from generation.summaries.nodes import (
    Node,
    Recipe,
    group_children,
    parent_json,
    parent_key,
    parent_statements,
    section_json,
    section_key,
    section_statements,
    unpack_vectors,
)
from generation.summaries.parameters import SummaryParameters
from generation.summaries.sections import Section
from generation.summaries.writing import NodeWriter, SpokenLanguage, Task, Written
from retrieval.sentences import Sentence, split_sentences
from storage.job_run import JobRun
from storage.models import SummaryNode

MIN_SECTION_ROOM = 120
_LANGUAGE_SAMPLE = 4000
_HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document as it is read. `known` are hashes of sentences that are no news."""

    quote_of: Quote
    text: str
    sections: Sequence[Section]
    known: Set[bytes] | None


@dataclass(frozen=True, slots=True)
class DocumentNodes:
    """What became of it: the node that stands for it, if it says anything; or where it stopped, the nodes
    till then. `read` are the sections read, whether or not there was something to say of them."""

    nodes: tuple[Node, ...]
    read: Sequence[Section]
    num_nodes: int
    is_capped: bool = False


class NodeTree:
    """Makes the nodes of documents, and of their nodes together."""

    def __init__(
        self, *, run: JobRun, parameters: SummaryParameters, writer: NodeWriter, maker: NodeMaker
    ) -> None:
        self._run = run
        self._parameters = parameters
        self._writer = writer
        self._maker = maker
        self._recipe: Recipe = writer.recipe(parameters)

    def of_document(self, document: DocumentText, progress: Mapping[str, Any]) -> DocumentNodes:
        """The document's node, or as much as the run's limit leaves."""
        language = language_of(document.text, self._parameters)
        read: list[Section] = []
        nodes: list[Node] = []
        try:
            if self._parameters.method == "refine":
                self._carry_through(document, language, nodes, read, progress)
            else:
                self._read_all(document, language, nodes, read, progress)
            if len(nodes) <= 1:
                return DocumentNodes(tuple(nodes), read, len(nodes))
            joined, num_more = self.joined(
                nodes,
                language=language,
                title=document.quote_of.document_name,
                document_id=document.quote_of.document_id,
                progress=progress,
            )
            return DocumentNodes((joined,), read, len(nodes) + num_more)
        except LimitReached:
            return DocumentNodes(tuple(nodes), read, len(nodes), is_capped=True)

    def joined(
        self,
        nodes: Sequence[Node],
        *,
        language: SpokenLanguage,
        title: str,
        document_id: DocumentId | None,
        progress: Mapping[str, Any],
    ) -> tuple[Node, int]:
        """One node of them all, and how many were made on the way, it among them."""
        room = self._parameters.target_tokens
        num_made = 0
        level = list(nodes)
        while True:
            groups = group_children([node.key for node in level], most=self._writer.most_children(room))
            made: list[Node] = []
            for group in groups:
                children = [level[i] for i in group]
                if len(children) == 1:
                    made += children
                    continue
                task = self._task(room, language, title)
                made.append(self._parent(task, children, document_id, progress))
                num_made += 1
            level = made
            if len(level) == 1:
                return level[0], num_made

    # ---- sections ------------------------------------------------------------------------

    def _read_all(
        self,
        document: DocumentText,
        language: SpokenLanguage,
        nodes: list[Node],
        read: list[Section],
        progress: Mapping[str, Any],
    ) -> None:
        """Add to `nodes` and `read` section by section, so that they are there when a limit ends it."""
        room = section_room(self._parameters.target_tokens, len(document.sections))
        title = document.quote_of.document_name
        task = self._task(room, language, title)
        wanted = [_sentences(section, document.known) for section in document.sections]
        keys = [
            section_key(section.text, section.headings, self._with(task, sentences, section))
            for section, sentences in zip(document.sections, wanted, strict=True)
        ]
        found = self._maker.find(keys)
        for section, sentences, key in zip(document.sections, wanted, keys, strict=True):
            if sentences:
                nodes.append(self._section(task, document, section, sentences, key, found.get(key), progress))
            read.append(section)

    def _section(
        self,
        task: Task,
        document: DocumentText,
        section: Section,
        sentences: Sequence[Sentence],
        key: str,
        kept: SummaryNode | None,
        progress: Mapping[str, Any],
    ) -> Node:
        if kept is not None:
            statements = section_statements(kept.statements, section.text, section.start, document.quote_of)
            return Node(key, statements, unpack_vectors(kept.vectors, len(statements)))
        made = self._maker.make(
            key,
            ceiling=self._writer.reading_ceiling(task.room_tokens, section.num_tokens),
            write=lambda spent: self._writer.read(task, spent, section, sentences, document.quote_of, None),
            as_json=lambda made: section_json(made.statements, section.start),
            document_id=document.quote_of.document_id,
            progress=_at(progress, section),
        )
        return Node(key, made.statements, made.vectors)

    def _carry_through(
        self,
        document: DocumentText,
        language: SpokenLanguage,
        nodes: list[Node],
        read: list[Section],
        progress: Mapping[str, Any],
    ) -> None:
        """Leave one node in `nodes`, made again with each section. Its quotes are kept by the document's
        characters."""
        task = self._task(self._parameters.target_tokens, language, document.quote_of.document_name)
        for section in document.sections:
            before = nodes[-1] if nodes else None
            sentences = _sentences(section, document.known)
            recipe = self._with(task, sentences, section) | {
                "before": before.key if before else "",
                "start": section.start,
            }
            key = section_key(section.text, section.headings, recipe)
            nodes[:] = [self._carry(task, document, section, sentences, key, before, progress)]
            read.append(section)

    def _carry(
        self,
        task: Task,
        document: DocumentText,
        section: Section,
        sentences: Sequence[Sentence],
        key: str,
        before: Node | None,
        progress: Mapping[str, Any],
    ) -> Node:
        kept = self._maker.find([key]).get(key)
        if kept is not None:
            statements = section_statements(kept.statements, document.text, 0, document.quote_of)
            return Node(key, statements, unpack_vectors(kept.vectors, len(statements)))
        made = self._maker.make(
            key,
            ceiling=self._writer.reading_ceiling(task.room_tokens, section.num_tokens + task.room_tokens),
            write=lambda spent: self._writer.read(task, spent, section, sentences, document.quote_of, before),
            as_json=lambda made: section_json(made.statements, 0),
            document_id=document.quote_of.document_id,
            progress=_at(progress, section),
        )
        return Node(key, made.statements, made.vectors)

    # ---- nodes of nodes ------------------------------------------------------------------

    def _parent(
        self,
        task: Task,
        children: Sequence[Node],
        document_id: DocumentId | None,
        progress: Mapping[str, Any],
    ) -> Node:
        recipe = self._recipe_of(task)
        key = parent_key([child.key for child in children], recipe)
        kept = self._maker.find([key]).get(key)
        if kept is not None:
            statements = parent_statements(kept.statements, children)
            return Node(key, statements, unpack_vectors(kept.vectors, len(statements)))
        told = sum(estimate_tokens(each.text) for child in children for each in child.statements)
        made: Written = self._maker.make(
            key,
            ceiling=self._writer.joining_ceiling(task.room_tokens, told),
            write=lambda spent: self._writer.join(task, spent, children),
            as_json=lambda made: parent_json(made.statements, children),
            document_id=document_id,
            progress=dict(progress),
        )
        return Node(key, made.statements, made.vectors)

    # ---- parts ---------------------------------------------------------------------------

    def _task(self, room: int, language: SpokenLanguage, title: str) -> Task:
        return Task(
            parameters=self._parameters,
            room_tokens=room,
            language=language,
            title=title,
            cache_salt=self._run.job.tenant_id,
            checkpoint=self._run.checkpoint,
        )

    def _recipe_of(self, task: Task) -> dict[str, Any]:
        recipe = dict(self._recipe) | {"room": task.room_tokens, "language": task.language}
        # The same text in a document of another name is asked for in other words.
        return recipe | ({"title": task.title} if "{title}" in self._parameters.prompt else {})

    def _with(self, task: Task, sentences: Sequence[Sentence], section: Section) -> dict[str, Any]:
        """The recipe of a section, with the sentences that count where not all do."""
        recipe = self._recipe_of(task)
        if self._parameters.style == "changes_since_last":
            recipe["new"] = [[sentence.start, sentence.end] for sentence in sentences]
        return recipe


def section_room(target_tokens: int, num_sections: int) -> int:
    """How long a section's node may get: half again its share of the target, in powers of two, so that a
    section more or less does not change what the others come to."""
    if num_sections <= 1:
        return target_tokens
    room, share = MIN_SECTION_ROOM, 1.5 * target_tokens / num_sections
    while room < share:
        room *= 2
    return min(room, target_tokens) if target_tokens >= MIN_SECTION_ROOM else room


def sentence_hashes(text: str) -> list[bytes]:
    """What tells the text's sentences from others, white space aside."""
    return [_hash(sentence.text) for sentence in split_sentences(text)]


def language_of(text: str, parameters: SummaryParameters) -> SpokenLanguage:
    """The language asked for, or that of the text."""
    if parameters.language != "auto":
        return parameters.language
    return "zh" if is_chinese(text[:_LANGUAGE_SAMPLE]) else "en"


def _sentences(section: Section, known: Set[bytes] | None) -> list[Sentence]:
    return [
        sentence
        for sentence in split_sentences(section.text)
        if known is None or _hash(sentence.text) not in known
    ]


def _hash(text: str) -> bytes:
    return hashlib.blake2b("".join(text.split()).encode(), digest_size=_HASH_BYTES).digest()


def unpack_hashes(packed: bytes) -> set[bytes]:
    """What was joined of `sentence_hashes`."""
    return {packed[i : i + _HASH_BYTES] for i in range(0, len(packed), _HASH_BYTES)}


def _at(progress: Mapping[str, Any], section: Section) -> dict[str, Any]:
    return dict(progress) | {"characters_done": progress.get("characters_done", 0) + section.end}
