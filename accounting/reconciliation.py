"""The ledger held against what the engines themselves have counted.

    ledger:  billed + burned + corrected      of all lines that have a generator's prices
    engines: counters at the end - counters at the start, over all processes between

Both ends are moments at which the counters were read; if possible such at which nothing was under way.
A process takes its counters with it. What it counted after it was last read can be no more than what
the ledger has from then until the next process was read, and what was found lost later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from accounting.billing import BurnReason
from accounting.stages import GENERATOR_STAGES, Stage
from storage.engine_counters import (
    find_edge,
    first_sample,
    first_start,
    latest_sample,
    list_sampled_engines,
    list_sampled_models,
    list_samples,
)
from storage.models import EngineSample, LedgerEntry

TOLERANCE = 0.001
ABORTED_TOKENS = 8
"""What an engine may write between the last token that is read of a broken-off request and its end."""

_BROKEN_OFF = (BurnReason.FAILED.value, BurnReason.CANCELLED.value, BurnReason.LOST.value)
_CLOCK_SKEW = timedelta(seconds=2)
_NAMES = ("prompt", "cached", "generation")


@dataclass(frozen=True, slots=True)
class Tokens:
    """By the engines' counters; `prompt` includes `cached`."""

    prompt: int = 0
    cached: int = 0
    generation: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.prompt + other.prompt, self.cached + other.cached, self.generation + other.generation
        )

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.prompt - other.prompt, self.cached - other.cached, self.generation - other.generation
        )

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in _NAMES}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One counter. `unexplained` has the sign of the difference."""

    engine: int
    ledger: int
    unexplained: int
    share: float

    @property
    def difference(self) -> int:
        return self.ledger - self.engine


@dataclass(frozen=True, slots=True)
class ModelReconciliation:
    """A model's engines, all together, against its lines.

    `unsampled` and `aborted` bound what explains a ledger that has more, and one that has less.
    """

    model: str
    compared_from: datetime | None = None
    compared_to: datetime | None = None
    is_quiet: bool = False
    engine: Tokens = Tokens()
    billed: Tokens = Tokens()
    burned: Mapping[str, Tokens] = field(default_factory=dict)
    corrected: Tokens = Tokens()
    unsampled: Tokens = Tokens()
    aborted: Tokens = Tokens()
    num_starts: int = 0
    engine_seconds: float = 0.0
    busy_seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def ledger(self) -> Tokens:
        return sum(self.burned.values(), self.billed + self.corrected)

    @property
    def counters(self) -> dict[str, Comparison]:
        """By name; none where nothing can be compared."""
        if self.compared_to is None:
            return {}
        return {name: self._compare(name) for name in _NAMES}

    @property
    def is_alarming(self) -> bool:
        return any(each.share > TOLERANCE for each in self.counters.values())

    def _compare(self, name: str) -> Comparison:
        engine, ledger = getattr(self.engine, name), getattr(self.ledger, name)
        difference = ledger - engine
        unsampled, aborted = getattr(self.unsampled, name), getattr(self.aborted, name)
        if name == "cached":  # of broken-off requests it is estimated, and may be wrong either way
            unsampled += aborted
        unexplained = max(0, difference - unsampled) if difference > 0 else min(0, difference + aborted)
        # Cached tokens are part of a prompt, and so is an error in them.
        total = self.engine.prompt if name == "cached" else engine
        return Comparison(engine, ledger, unexplained, abs(unexplained) / max(total, 1))


@dataclass(frozen=True, slots=True)
class _Edge:
    moment: datetime
    is_quiet: bool


@dataclass(frozen=True, slots=True)
class _EngineSums:
    """One engine's counters over the interval, and the stretches in which a process ended unseen."""

    tokens: Tokens = Tokens()
    busy_seconds: float = 0.0
    num_starts: int = 0
    gaps: tuple[tuple[datetime, datetime], ...] = ()


def reconcile(session: Session, *, start: datetime | None, end: datetime) -> list[ModelReconciliation]:
    """Every model that an engine was sampled for, or that has lines with a generator's prices."""
    models = dict.fromkeys([*list_sampled_models(session), *_list_ledger_models(session, start, end)])
    return [_reconcile_model(session, model, start, end) for model in models]


def _reconcile_model(
    session: Session, model: str, start: datetime | None, end: datetime
) -> ModelReconciliation:
    first, last = _start_edge(session, model, start), find_edge(session, model, end)
    if first is None or last is None or last.sampled_at <= first.moment:
        return ModelReconciliation(
            model, notes=("No engine's counters were read in the interval: nothing can be compared.",)
        )
    until = last.sampled_at
    sums = [
        _sum_engine(session, model, engine, after=first.moment, until=until)
        for engine in list_sampled_engines(session, model)
    ]
    gaps = [gap for each in sums for gap in each.gaps]
    of_interval = _written_between(model, first.moment, until)
    billed, burned, corrected, engine_seconds = _sum_lines(session, of_interval)
    is_quiet = first.is_quiet and last.is_quiet
    return ModelReconciliation(
        model=model,
        compared_from=first.moment,
        compared_to=until,
        is_quiet=is_quiet,
        engine=sum((each.tokens for each in sums), Tokens()),
        billed=billed,
        burned=burned,
        corrected=corrected,
        unsampled=_sum_unsampled(session, model, of_interval, gaps),
        aborted=_aborted(session, of_interval),
        num_starts=sum(each.num_starts for each in sums),
        engine_seconds=engine_seconds,
        busy_seconds=sum(each.busy_seconds for each in sums),
        notes=_notes(is_quiet=is_quiet, num_gaps=len(gaps)),
    )


def _start_edge(session: Session, model: str, start: datetime | None) -> _Edge | None:
    born = first_start(session, model)
    if born is None:
        return None
    if start is None or start <= born:
        return _Edge(born - _CLOCK_SKEW, is_quiet=True)
    known = find_edge(session, model, start) or first_sample(session, model)
    return None if known is None else _Edge(known.sampled_at, known.is_quiet)


def _sum_engine(
    session: Session, model: str, engine: str, *, after: datetime, until: datetime
) -> _EngineSums:
    before = latest_sample(session, engine, model=model, until=after)
    samples = list_samples(session, model, engine, after=after, until=until)
    starts: dict[datetime, list[EngineSample]] = {}
    for sample in samples:
        starts.setdefault(sample.started_at, []).append(sample)
    tokens, busy, gaps, last = Tokens(), 0.0, [], before
    for started_at, of_start in starts.items():
        if last is not None and last.started_at != started_at:
            gaps.append((last.sampled_at, of_start[0].sampled_at))
        base = last if last is not None and last.started_at == started_at else None
        if base is None and started_at < after:  # an engine that was there before, and is only now read
            base = of_start[0]
        last = of_start[-1]
        tokens += _tokens_of(last) - (Tokens() if base is None else _tokens_of(base))
        busy += last.busy_seconds - (0.0 if base is None else base.busy_seconds)
    return _EngineSums(tokens, busy, len(starts), tuple(gaps))


def _tokens_of(sample: EngineSample) -> Tokens:
    return Tokens(sample.prompt_tokens, sample.cached_tokens, sample.generation_tokens)


def _written_between(model: str, after: datetime, until: datetime) -> ColumnElement[bool]:
    return and_(
        LedgerEntry.model == model,
        LedgerEntry.price_stage.in_([stage.value for stage in GENERATOR_STAGES]),
        LedgerEntry.created_at > after,
        LedgerEntry.created_at <= until,
    )


def _sum_lines(
    session: Session, condition: ColumnElement[bool]
) -> tuple[Tokens, dict[str, Tokens], Tokens, float]:
    """Billed, burned by reason, corrected; and the engine's seconds."""
    is_correction = LedgerEntry.corrects_id.is_not(None)
    # A correction's reason is an operator's words; its lines need no telling apart here.
    reason = func.coalesce(LedgerEntry.reason, "")
    query = (
        select(
            LedgerEntry.price_stage,
            LedgerEntry.billed,
            is_correction,
            reason,
            func.sum(LedgerEntry.num_tokens),
            func.sum(LedgerEntry.engine_seconds),
        )
        .where(condition)
        .group_by(LedgerEntry.price_stage, LedgerEntry.billed, is_correction, reason)
    )
    billed, corrected, burned, seconds = Tokens(), Tokens(), dict[str, Tokens](), 0.0
    for stage, is_billed, corrects, why, num_tokens, engine_seconds in session.execute(query):
        tokens = _counted(Stage(stage), int(num_tokens))
        seconds += float(engine_seconds)
        if corrects:
            corrected += tokens
        elif is_billed:
            billed += tokens
        else:
            name = why or BurnReason.FAILED.value  # lines written before reasons were
            burned[name] = burned.get(name, Tokens()) + tokens
    return billed, dict(sorted(burned.items())), corrected, seconds


def _counted(stage: Stage, num_tokens: int) -> Tokens:
    if stage is Stage.DECODE:
        return Tokens(generation=num_tokens)
    return Tokens(prompt=num_tokens, cached=num_tokens if stage is Stage.PREFILL_CACHED else 0)


def _sum_unsampled(
    session: Session,
    model: str,
    of_interval: ColumnElement[bool],
    gaps: Sequence[tuple[datetime, datetime]],
) -> Tokens:
    if not gaps:
        return Tokens()
    unseen = or_(
        *(_written_between(model, *gap) for gap in gaps), LedgerEntry.reason == BurnReason.LOST.value
    )
    return _total(session, and_(of_interval, unseen))


def _aborted(session: Session, of_interval: ColumnElement[bool]) -> Tokens:
    broken_off = and_(of_interval, LedgerEntry.reason.in_(_BROKEN_OFF), LedgerEntry.corrects_id.is_(None))
    prompt = _total(session, broken_off).prompt
    query = select(func.count()).where(broken_off, LedgerEntry.price_stage == Stage.DECODE.value)
    return Tokens(cached=prompt, generation=ABORTED_TOKENS * (session.scalar(query) or 0))


def _total(session: Session, condition: ColumnElement[bool]) -> Tokens:
    query = select(LedgerEntry.price_stage, func.sum(LedgerEntry.num_tokens)).where(condition)
    rows = session.execute(query.group_by(LedgerEntry.price_stage))
    return sum((_counted(Stage(stage), int(num_tokens)) for stage, num_tokens in rows), Tokens())


def _list_ledger_models(session: Session, start: datetime | None, end: datetime) -> Iterable[str]:
    query = select(LedgerEntry.model).where(
        LedgerEntry.price_stage.in_([stage.value for stage in GENERATOR_STAGES]),
        LedgerEntry.created_at <= end,
    )
    if start is not None:
        query = query.where(LedgerEntry.created_at >= start)
    return session.scalars(query.distinct().order_by(LedgerEntry.model))


def _notes(*, is_quiet: bool, num_gaps: int) -> tuple[str, ...]:
    notes = {
        "Work was under way at an end of the interval: the engine had counted some of it that the ledger "
        "has outside, or the other way round.": not is_quiet,
        f"{num_gaps} times an engine's process ended, and with it what it had counted since it was last "
        "read.": num_gaps > 0,
    }
    return tuple(note for note, applies in notes.items() if applies)
