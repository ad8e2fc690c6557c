from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from accounting.calendar import load_zone
from accounting.money import format_amount
from api.schemas.answers import Cost
from api.schemas.base import Body, Failure, JsonObject, Name, View, failure
from api.schemas.jobs import JobStatus
from schedules.catch_up import MAX_CAUGHT_UP, MISSED_AFTER, CatchUp
from schedules.registration import Overlap
from schedules.timetable import MAX_CRON_CHARACTERS, MIN_EVERY_SECONDS
from storage import models
from storage.schedules import RunOutcome

MAX_PREVIEWED = 100


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("it is out of range") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]

_CRON = (
    "Minute, hour, day of month, month, day of week, as `30 6 * * MON-FRI`. Where clocks jump, a time of day "
    "happens once, and what begins with a star in every real hour."
)
_TIME_ZONE = "Whose clocks `cron` means; an IANA name."
_EVERY = f"Instead of `cron`: so long apart, counted from `start_at`; at least {MIN_EVERY_SECONDS}."
_START = "First instant at which it may be due; left out: from now on."
_END = "First instant at which it is due no more."
_CATCH_UP = (
    f"Slots that nobody started within {MISSED_AFTER.seconds} s, since no scheduler ran. `skip`: none of them "
    "runs. `latest`: the newest runs, unless one on time does. `all`: they run one after another, of more than "
    f"{MAX_CAUGHT_UP} the newest."
)
_OVERLAP = (
    "When the run before has not ended. `skip`: this one is left out. `queue`: it waits. `cancel_previous`: it "
    "begins, and the one before is cancelled."
)
_PARAMETERS = "The body of the route that does it at once, as `POST /v1/extractions`."

Cron = Annotated[str | None, Field(max_length=MAX_CRON_CHARACTERS, description=_CRON)]
EverySeconds = Annotated[int | None, Field(description=_EVERY)]
StartAt = Annotated[Moment | None, Field(description=_START)]
EndAt = Annotated[Moment | None, Field(description=_END)]


class _Times(Body):
    """When it is due: `cron`, or `every_seconds`."""

    cron: Cron = None
    time_zone: str = Field("UTC", max_length=100, description=_TIME_ZONE)
    every_seconds: EverySeconds = None
    start_at: StartAt = None
    end_at: EndAt = None


class NewSchedule(_Times):
    """Work to begin whenever it is due."""

    name: Name = Field(description="For people.")
    action: str = Field(max_length=50, description="What it does: `extraction`, `evaluation`, …")
    parameters: JsonObject = Field(description=_PARAMETERS)
    catch_up: CatchUp = Field("latest", description=_CATCH_UP)
    overlap: Overlap = Field("skip", description=_OVERLAP)
    paused: bool = Field(False, description="Make it, and do not begin.")


class SchedulePreview(_Times):
    """A schedule that is not made."""

    count: int = Field(10, ge=1, le=MAX_PREVIEWED, description="Slots to show.")


class ScheduleChange(Body):
    """What is left out stays. To change between the two, give one and null for the other."""

    name: Name | None = Field(None, description="For people.")
    parameters: JsonObject | None = Field(None, description=_PARAMETERS)
    cron: Cron = None
    time_zone: str | None = Field(None, max_length=100, description=_TIME_ZONE)
    every_seconds: EverySeconds = None
    start_at: StartAt = None
    end_at: EndAt = None
    catch_up: CatchUp | None = Field(None, description=_CATCH_UP)
    overlap: Overlap | None = Field(None, description=_OVERLAP)
    paused: bool | None = Field(
        None, description="Pause or resume it; slots that pass meanwhile are not made up for."
    )

    @model_validator(mode="after")
    def _nulls_only_where_they_mean_something(self) -> ScheduleChange:
        for field in ("name", "parameters", "time_zone", "catch_up", "overlap", "paused"):
            if field in self.model_fields_set and getattr(self, field) is None:
                raise ValueError(f"`{field}` must not be null; leave it out")
        return self

    def changes(self) -> dict[str, Any]:
        """What was given."""
        return self.model_dump(exclude_unset=True)


class Schedule(View):
    """Work that begins whenever it is due."""

    id: str = Field(description="`sch_…`")
    name: str = Field(description="For people.")
    action: str = Field(description="What it does.")
    parameters: dict[str, Any] = Field(description="What it does it with, defaults filled in.")
    cron: str | None = Field(description=_CRON)
    time_zone: str = Field(description=_TIME_ZONE)
    every_seconds: int | None = Field(description="Or so long apart, counted from `start_at`.")
    catch_up: CatchUp = Field(description="What becomes of slots that passed while no scheduler ran.")
    overlap: Overlap = Field(description="What happens when the run before has not ended.")
    start_at: datetime | None = Field(description="First instant at which it may be due.")
    end_at: datetime | None = Field(description="First instant at which it is due no more.")
    next_at: datetime | None = Field(description="The slot to come; null while paused, and after the last.")
    paused: bool = Field(description="Whether it begins nothing.")
    pause_reason: Failure | None = Field(description="Why it paused itself; null where somebody paused it.")
    created_at: datetime = Field(description="When it was made.")

    @classmethod
    def of(cls, row: models.Schedule) -> Schedule:
        return cls(
            id=row.id,
            name=row.name,
            action=row.action,
            parameters=row.parameters,
            cron=row.cron,
            time_zone=row.time_zone,
            every_seconds=row.every_seconds,
            catch_up=row.catch_up,  # type: ignore[arg-type]  # the column holds nothing else
            overlap=row.overlap,  # type: ignore[arg-type]  # as above
            start_at=row.start_at,
            end_at=row.end_at,
            next_at=row.next_at,
            paused=row.paused_at is not None,
            pause_reason=failure(row.pause_code, row.pause_detail),
            created_at=row.created_at,
        )


class ScheduleRun(View):
    """What became of a slot, or of an order to run now."""

    id: str = Field(description="`srn_…`")
    schedule_id: str = Field(description="The schedule.")
    slot_at: datetime | None = Field(description="When it was due; null: somebody had it run.")
    first_slot_at: datetime | None = Field(
        description="Where the row stands for several missed slots: the first; `slot_at` is the last."
    )
    outcome: RunOutcome = Field(
        description="`started`: as `job_id`. `waiting`: for the run before it. `skipped` and `failed`: it began "
        "nothing, see `reason`."
    )
    reason: Failure | None = Field(description="Why it began nothing: `slot_missed`, `run_overlaps`, …")
    job_id: str | None = Field(description="The job that it began.")
    status: JobStatus | None = Field(description="That job's.")
    error: Failure | None = Field(description="Why the job failed; null otherwise.")
    costs: list[Cost] = Field(description="Billed so far, with the jobs that the job made.")
    created_at: datetime = Field(description="When it was decided.")
    finished_at: datetime | None = Field(description="When the job ended.")

    @classmethod
    def of(
        cls, row: models.ScheduleRun, *, job: models.Job | None, costs: Mapping[str, Decimal]
    ) -> ScheduleRun:
        return cls(
            id=row.id,
            schedule_id=row.schedule_id,
            slot_at=row.slot_at,
            first_slot_at=row.first_slot_at,
            outcome=row.outcome,  # type: ignore[arg-type]  # the column holds nothing else
            reason=failure(row.code, row.detail),
            job_id=row.job_id,
            status=job and job.status,  # type: ignore[arg-type]  # the column holds nothing else
            error=None if job is None else failure(job.error_code, job.error_detail),
            costs=[Cost(amount=format_amount(costs[each]), currency=each) for each in sorted(costs)],
            created_at=row.created_at,
            finished_at=None if job is None else job.finished_at,
        )


class Slot(View):
    at: datetime = Field(description="The instant, in UTC.")
    local: str = Field(description="The same as the zone's clock shows it, with its offset.")


class Slots(View):
    """The next slots, if nothing changes."""

    items: list[Slot] = Field(description="In order; fewer than asked for where there are no more.")
    time_zone: str = Field(description="Whose clock `local` is.")

    @classmethod
    def of(cls, moments: list[datetime], time_zone: str) -> Slots:
        zone = load_zone(time_zone)
        items = [Slot(at=moment, local=moment.astimezone(zone).isoformat()) for moment in moments]
        return cls(items=items, time_zone=time_zone)
