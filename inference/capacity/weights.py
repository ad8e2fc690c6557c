"""Bytes of a model's weights, by number type and quantization."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.errors import ModelUnavailable
from inference.capacity.dtypes import bytes_of
from inference.capacity.shape import ModelShape

Quantization = Literal["", "fp8", "int8", "awq", "gptq"]

# AWQ and GPTQ keep 4 bits a weight, and for each group of 128 a scale (16 bits) and a zero (4 bits).
_FOUR_BIT = 0.5 + (2.0 + 0.5) / 128
_BYTES_PER_WEIGHT: dict[str, float] = {"fp8": 1.0, "int8": 1.0, "awq": _FOUR_BIT, "gptq": _FOUR_BIT}


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """What safetensors files hold: numbers, and bytes as they are stored."""

    num_parameters: int
    num_bytes: int


def weight_bytes(
    shape: ModelShape, *, dtype: str, quantization: str = "", stored: StoredWeights | None = None
) -> int:
    """Bytes of the weights in memory, over all devices together.

    Args:
        dtype: of what is not quantized: embeddings, head and norms always, the rest without
            `quantization`.
        stored: the model's own files, where they are there: their count is exact, and files that are
            quantized already are loaded as they are.
    """
    if stored is not None and shape.quantization:
        return stored.num_bytes
    num_parameters = stored.num_parameters if stored else shape.num_parameters
    per_weight = _BYTES_PER_WEIGHT.get(quantization or _method(shape))
    if per_weight is None:
        return round(num_parameters * bytes_of(dtype))
    kept = min(num_parameters, shape.num_embedding + 2 * shape.num_layers * shape.hidden_size)
    return round(kept * bytes_of(dtype) + (num_parameters - kept) * per_weight)


def read_stored_weights(folder: Path) -> StoredWeights | None:
    """The folder's safetensors files, by their headers; None where it has none.

    Raises:
        ModelUnavailable: a file is cut off or damaged.
    """
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    if not files:
        return None
    counted = [_read_header(file) for file in files]
    return StoredWeights(sum(count for count, _ in counted), sum(size for _, size in counted))


def _read_header(file: Path) -> tuple[int, int]:
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
        tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
        count = sum(math.prod(tensor["shape"]) for tensor in tensors)
        size = sum(tensor["data_offsets"][1] - tensor["data_offsets"][0] for tensor in tensors)
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise ModelUnavailable(
            f"{file} is no safetensors file: {error}.", remedy="Prepare the model anew."
        ) from error
    return count, size


def _method(shape: ModelShape) -> str:
    """The quantization that the model was published with, by our names."""
    published = shape.quantization
    return "int8" if published == "compressed-tensors" else published
