"""The shape of every error: RFC 9457 problem details."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class FieldProblem(BaseModel):
    field: str = Field(description="Where it is, such as `body.temperature` or `query.limit`.")
    problem: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """RFC 9457 problem details; members beyond these name the objects concerned."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`urn:longleaf:problem:<code>`.")
    title: str = Field(description="The kind of problem, the same for every occurrence.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened, to which object.")
    code: str = Field(description="Stable, machine-readable; failed jobs carry the same codes.")
    remedy: str = Field("", description="What you can do about it.")
    instance: str = Field(description="The path that was asked for.")
    request_id: str = Field(description="Quote it when asking for help; the logs carry it too.")
    errors: list[FieldProblem] | None = Field(None, description="For a malformed request: every fault.")
