"""What both writers of nodes are given, and give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from accounting.stages import Stage
from core.cancellation import Checkpoint
from generation.answer_draft import Statement
from generation.citations import Quote
from generation.consumption import Consumption
from generation.summaries.nodes import Node
from generation.summaries.parameters import SummaryParameters
from generation.summaries.sections import Section
from retrieval.sentences import Sentence

SpokenLanguage = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Task:
    """One node to make. `room_tokens`: how long it may get."""

    parameters: SummaryParameters
    room_tokens: int
    language: SpokenLanguage
    title: str
    cache_salt: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Written:
    """A node's statements, and their vectors where the writer goes on with them."""

    statements: tuple[Statement, ...] = ()
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))


Ceiling = Sequence[tuple[str, Stage, int]]
"""Model, stage and tokens that a node takes at most."""


class NodeWriter(Protocol):
    """Makes nodes out of sections and of nodes. One instance serves all threads of a worker."""

    @property
    def section_tokens(self) -> int:
        """How long a section may be, in the generator's tokens."""
        ...

    def most_children(self, room_tokens: int) -> int:
        """How many nodes of that length are made into one."""
        ...

    def recipe(self, parameters: SummaryParameters) -> dict[str, Any]:
        """What of the models and parameters its text depends on."""
        ...

    def read(
        self,
        task: Task,
        consumption: Consumption,
        section: Section,
        sentences: Sequence[Sentence],
        quote_of: Quote,
        before: Node | None,
    ) -> Written:
        """What a section says, or it and all before it together.

        Args:
            sentences: those of the section that are to be read.
            quote_of: the document, for the quotes.
            before: what was said up to here, where one summary is carried through the document.
            consumption: to which is added what it takes, however it ends.
        """
        ...

    def join(self, task: Task, consumption: Consumption, children: Sequence[Node]) -> Written:
        """What the nodes say together; their quotes are its quotes."""
        ...

    def reading_ceiling(self, room_tokens: int, input_tokens: int) -> Ceiling: ...

    def joining_ceiling(self, room_tokens: int, input_tokens: int) -> Ceiling: ...
