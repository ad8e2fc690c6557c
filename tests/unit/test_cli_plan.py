"""`longleaf plan`, on a model folder of its own."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cli.main import app
from tests.unit.test_capacity import LLAMA_3_8B


def run(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    folder = tmp_path / "llama"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA_3_8B), encoding="utf-8")
    command = ["--home", str(tmp_path / "home"), "plan", "--model", str(folder), *arguments]
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.output


def test_a_plan_says_what_fits_a_gpu(tmp_path: Path) -> None:
    status, output = run(
        tmp_path,
        "--gpu",
        "H100",
        "--context",
        "8192",
        "--concurrency",
        "32",
        "--quantization",
        "fp8",
        "--json",
    )
    assert status == 0
    plan = json.loads(output)
    assert plan["device"] == "H100"
    assert plan["fits"]
    assert plan["weight_bytes"] < 10e9
    assert plan["bound"]["ttft_seconds"] > plan["bound"]["cached_ttft_seconds"]
    assert plan["measured"] is None


def test_a_plan_that_does_not_fit_says_what_is_missing(tmp_path: Path) -> None:
    status, output = run(tmp_path, "--gpu", "L4", "--concurrency", "64", "--context", "8192")
    assert status == 0
    assert "sequences of 8,192 tokens need" in output.replace("\n", " ")
    assert "It does not fit." in output


def test_one_device_is_planned_for(tmp_path: Path) -> None:
    status, output = run(tmp_path, "--gpu", "L4", "--cpu")
    assert status != 0
    assert "one of --gpu and --cpu" in output


def test_an_answer_that_its_context_has_no_room_for_is_refused(tmp_path: Path) -> None:
    status, output = run(tmp_path, "--gpu", "H100", "--context", "100", "--answer", "300")
    assert status == 2
    assert "An answer of 300 tokens leaves no room in a context of 100" in output
    assert run(tmp_path, "--gpu", "H100", "--context", "100")[0] == 0, "without one, half is left for it"
