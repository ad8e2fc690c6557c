from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.app import create_app
from bootstrap.api_services import build_api_services
from core.settings import Settings

VERBS = ("get", "post", "put", "patch", "delete")


@pytest.fixture
def document(tmp_path: Path) -> Iterator[dict[str, Any]]:
    services = build_api_services(Settings(home=tmp_path))  # type: ignore[call-arg]
    yield create_app(services).openapi()
    services.close()


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (verb, path, operation)
        for path, item in document["paths"].items()
        for verb, operation in item.items()
        if verb in VERBS
    ]


def test_operations_have_distinct_plain_names_and_known_tags(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert {"ask_question", "upload_documents", "list_keys", "get_cost_report"} <= set(names)
    tags = {tag["name"] for tag in document["tags"]}
    assert all(set(operation["tags"]) <= tags for _, _, operation in operations(document))


def test_every_operation_says_what_it_does(document: dict[str, Any]) -> None:
    assert [path for _, path, operation in operations(document) if not operation.get("description")] == []


def test_every_route_under_v1_documents_its_problems(document: dict[str, Any]) -> None:
    for verb, path, operation in operations(document):
        if not path.startswith("/v1"):
            continue
        expected = {"401", "403", "422"} | ({"404"} if "{" in path else set())
        assert expected <= set(operation["responses"]), (verb, path)
        assert "application/problem+json" in operation["responses"]["401"]["content"]
        assert operation["security"]


def test_every_field_is_described(document: dict[str, Any]) -> None:
    undescribed = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, about in schema.get("properties", {}).items()
        if not about.get("description")
    ]
    assert undescribed == []


def test_bodies_refuse_fields_they_do_not_know(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("Question", "NewCollection", "NewKey", "NewTenant"):
        assert schemas[name]["additionalProperties"] is False


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for child in node.values():
                yield from references(child)
        elif isinstance(node, list):
            for child in node:
                yield from references(child)

    for reference in references(document):
        assert reference.rpartition("/")[2] in document["components"]["schemas"], reference
