"""Model names and what they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import Misconfigured
from inference.registry import FolderSource, HubSource, PackagedSource, Prompts, find_model, list_models


def test_packaged_models_are_found_by_short_name_in_any_case() -> None:
    spec = find_model("Multilingual-E5-Small")
    assert spec.name == "multilingual-e5-small"
    assert isinstance(spec.source, PackagedSource)
    assert spec.prompts == Prompts(query="query: ", passage="passage: ")
    assert {"en", "zh"} <= set(spec.languages)


def test_each_role_of_the_embedded_shape_has_a_packaged_model_with_a_licence() -> None:
    models = list_models()
    assert {model.role for model in models} == {"generator", "embedder", "ocr"}
    assert all(model.licence and model.num_parameters for model in models)


def test_anything_with_an_owner_is_a_hub_id_and_keeps_its_pinned_revision() -> None:
    spec = find_model("Qwen/Qwen3-8B", revision="abc123")
    assert spec.role == "generator"
    assert spec.source == HubSource("Qwen/Qwen3-8B", "abc123")


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("BAAI/bge-m3", "", ""),
    ],
)
def test_prompts_follow_the_family_that_the_name_belongs_to(name: str, query: str, passage: str) -> None:
    spec = find_model(name)
    assert spec.role == "embedder"
    assert spec.prompts == Prompts(query=query, passage=passage)


def test_an_instructed_e5_prompts_queries_only() -> None:
    prompts = find_model("intfloat/multilingual-e5-large-instruct").prompts
    assert prompts is not None
    assert prompts.query.startswith("Instruct: ")
    assert prompts.passage == ""


def test_a_family_without_a_convention_leaves_prompts_to_the_folder() -> None:
    assert find_model("sentence-transformers/all-mpnet-base-v2").prompts is None


def test_a_folder_with_modules_is_an_embedder_and_another_a_generator(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert find_model(str(tmp_path)).role == "generator"
    (tmp_path / "modules.json").write_text("[]")
    spec = find_model(str(tmp_path))
    assert spec.role == "embedder"
    assert spec.source == FolderSource(tmp_path.resolve())


@pytest.mark.parametrize("name", ["", "gpt-9", "/no/such/folder", "a/b/c", "../models/x", "长叶"])
def test_other_names_are_refused_with_the_known_ones_in_the_remedy(name: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        find_model(name)
    assert "smollm2-135m-instruct" in refused.value.remedy


def test_a_model_of_another_role_is_refused() -> None:
    with pytest.raises(Misconfigured, match="role embedder, but generator"):
        find_model("multilingual-e5-small", role="generator")
