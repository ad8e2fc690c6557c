"""`longleaf plan`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.options import JsonOption, settings_of
from cli.output import format_seconds, out, print_json, print_table, say

_GIB = 1024**3


def plan(
    context: typer.Context,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="Registry name, Hugging Face id or folder.")
    ] = "",
    context_tokens: Annotated[
        int | None, typer.Option("--context", min=2, metavar="TOKENS", help="Prompt and answer together.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, metavar="N", help="Callers at once.")
    ] = None,
    answer_tokens: Annotated[
        int | None,
        typer.Option("--answer", min=1, metavar="TOKENS", help="Of the context: the answer; else 300."),
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32, bfloat16, float16.")] = "",
    kv_dtype: Annotated[str, typer.Option("--kv-dtype", help="Of the KV cache: auto, bfloat16, fp8.")] = "",
    quantization: Annotated[str, typer.Option("--quantization", help="fp8, int8, awq, gptq.")] = "",
    tensor_parallel: Annotated[
        int | None, typer.Option("--tensor-parallel", min=1, metavar="N", help="Devices that share it.")
    ] = None,
    kv_bytes: Annotated[
        int | None, typer.Option("--kv-bytes", min=1, metavar="BYTES", help="Room for the KV cache.")
    ] = None,
    gpu: Annotated[str, typer.Option("--gpu", metavar="NAME", help="A100, H100, L4, RTX 4090, …")] = "",
    cpu: Annotated[bool, typer.Option("--cpu", help="This machine's CPU, though it has a GPU.")] = False,
    measure: Annotated[bool, typer.Option("--measure", help="Measure this machine's CPU anew.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Whether a model fits, how many callers fit with it, and how fast that can be.

    What is left out is as the settings have it. Nothing is started and no weights are read.
    """
    from bootstrap.capacity import plan_capacity
    from inference.engine_plan import PlanOptions

    options = PlanOptions(
        context_tokens=context_tokens,
        concurrency=concurrency,
        answer_tokens=answer_tokens,
        dtype=dtype,
        kv_dtype=kv_dtype,
        quantization=quantization,
        tensor_parallel=tensor_parallel,
        kv_bytes=kv_bytes,
        gpu=gpu,
        on_cpu=cpu,
    )
    found = plan_capacity(settings_of(context), model, options, measure=measure).as_json()
    if as_json:
        print_json(found)
        return
    print_plan(found)


def print_plan(plan: dict[str, Any]) -> None:
    """A plan as two tables and what to mind."""
    devices = f"{plan['num_devices']} × {plan['device']}" if plan["num_devices"] > 1 else plan["device"]
    out().print(devices, markup=False)
    print_table(
        ("memory of a device", "bytes"),
        [
            ("weights", _gib(plan["weight_bytes"])),
            *(
                (("activations, graphs, CUDA", _gib(plan["reserved_bytes"])),)
                if plan["reserved_bytes"]
                else ()
            ),
            ("KV cache", _gib(plan["kv_bytes"])),
            ("  a token", f"{plan['kv_bytes_per_token'] / 1024:,.1f} KiB"),
            ("  blocks", f"{plan['num_blocks']:,} of {plan['block_tokens']} tokens"),
            ("  tokens", f"{plan['kv_tokens']:,}"),
            (
                f"sequences of {plan['context_tokens']:,} tokens that fit",
                f"{plan['num_sequences']:,} ({plan['concurrency']} wanted)",
            ),
        ],
        right=("bytes",),
    )
    bound, measured = plan["bound"], plan["measured"]
    names = {
        "ttft_seconds": "to the first token",
        "cached_ttft_seconds": "the same, all but the question cached",
        "tpot_seconds": "a further token, one caller",
        "loaded_tpot_seconds": f"a further token, {plan['concurrency']} callers",
    }
    print_table(
        ("time", "bound of the device", "this engine, measured"),
        [(words, _time(bound[key]), _time((measured or {}).get(key))) for key, words in names.items()],
        right=("bound of the device", "this engine, measured"),
    )
    for note in plan["notes"]:
        say(note[:1].upper() + note[1:] + ".")
    if not plan["fits"]:
        say("It does not fit.", style="bold")


def _time(seconds: float | None) -> str:
    return f"{seconds * 1000:.2g} ms" if seconds is not None and seconds < 0.01 else format_seconds(seconds)


def _gib(number: int) -> str:
    return f"{number / _GIB:,.2f} GiB"
