from __future__ import annotations

from pydantic import Field

from api.schemas.base import View


class Liveness(View):
    status: str = Field(default="ok", description="The process answers.")


class Readiness(View):
    ready: bool = Field(description="All parts below are in order.")
    checks: dict[str, str] = Field(description="`ok`, or what is missing, by part.")


class ServiceInfo(View):
    service: str = Field(default="longleaf", description="What this is.")
    version: str = Field(description="Its version.")
    docs: str = Field(default="/docs", description="The routes, to read and to try.")
    openapi: str = Field(default="/openapi.json", description="The routes, for programs.")
