from __future__ import annotations

from collections.abc import Iterator

import pytest

from api.problems import problem_of, problem_of_job, status_of
from core import errors
from core.errors import LongleafError


def tree(kind: type[LongleafError]) -> Iterator[type[LongleafError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


@pytest.mark.parametrize("kind", list(tree(LongleafError)))
def test_every_error_has_a_status(kind: type[LongleafError]) -> None:
    assert 400 <= status_of(kind) < 600


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.EmptyInput, 422),
        (errors.TooLong, 422),
        (errors.TooLarge, 413),
        (errors.UnsupportedFormat, 415),
        (errors.EncryptedDocument, 422),
        (errors.KeyRevoked, 401),
        (errors.NotPermitted, 403),
        (errors.NotFound, 404),
        (errors.Conflict, 409),
        (errors.IdempotencyMismatch, 422),
        (errors.EngineOverloaded, 503),
        (errors.StoreCorrupt, 500),
    ],
)
def test_an_error_has_its_own_status_or_its_ancestor_s(kind: type[LongleafError], status: int) -> None:
    assert status_of(kind) == status


def test_a_problem_names_the_object_and_the_way_out() -> None:
    error = errors.NotFound("There is no job job_1.", remedy="List them.", job_id="job_1", sizes=(1, 2))
    assert problem_of(error, instance="/v1/jobs/job_1", request_id="req_1") == {
        "type": "urn:longleaf:problem:not_found",
        "title": "No such object",
        "status": 404,
        "detail": "There is no job job_1.",
        "code": "not_found",
        "remedy": "List them.",
        "instance": "/v1/jobs/job_1",
        "request_id": "req_1",
        "job_id": "job_1",
        "sizes": [1, 2],
    }


def test_context_cannot_take_the_place_of_a_standard_member() -> None:
    problem = problem_of(errors.Conflict("No.", status="succeeded", type="x"), instance="/", request_id="")
    assert problem["status"] == 409
    assert problem["type"] == "urn:longleaf:problem:conflict"


@pytest.mark.parametrize(
    ("code", "status"),
    [("too_long", 422), ("engine_unavailable", 503), ("worker_lost", 500), ("of_a_newer_version", 500)],
)
def test_a_failed_job_is_a_problem_of_the_status_of_its_code(code: str, status: int) -> None:
    problem = problem_of_job(code, "问题太长。", instance="/", request_id="", job_id="job_1")
    assert (problem["status"], problem["code"], problem["detail"]) == (status, code, "问题太长。")
    assert problem["job_id"] == "job_1"
