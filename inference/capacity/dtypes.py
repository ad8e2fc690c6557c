"""Bytes of a number, by the names that vLLM, transformers and safetensors use."""

from __future__ import annotations

from core.errors import InvalidInput

_BYTES = {
    "float32": 4.0,
    "float": 4.0,
    "f32": 4.0,
    "bfloat16": 2.0,
    "bf16": 2.0,
    "float16": 2.0,
    "half": 2.0,
    "f16": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "f8_e4m3": 1.0,
    "f8_e5m2": 1.0,
    "int8": 1.0,
    "i8": 1.0,
    "u8": 1.0,
}


def bytes_of(dtype: str) -> float:
    """Bytes of one number.

    Raises:
        InvalidInput: there is no such type.
    """
    name = dtype.lower().removeprefix("torch.")
    if name not in _BYTES:
        raise InvalidInput(f"There is no number type {dtype!r}.", remedy=f"Use one of {', '.join(_BYTES)}.")
    return _BYTES[name]
