"""The tokenizer of multilingual-e5-small as a `tokenizer.json`."""

from __future__ import annotations

from inference.packed_e5.reader import Pieces

MASK = "<mask>"

# sentencepiece's nmt_nfkc as rules: some control characters vanish, other white space and
# zero-width marks become a space, the full-width tilde survives NFKC, runs of spaces shrink.
_DROPPED = r"[\x00-\x08\x0B\x0E-\x1F\x7F\x{8F}\x{9F}]"
_SPACES = (
    r"[\x09\x0A\x0C\x0D\x{A0}\x{1680}\x{2000}-\x{200F}\x{2028}\x{2029}\x{202F}\x{205F}"
    r"\x{2581}\x{3000}\x{FEFF}\x{FFFD}]"
)
_TILDE = "\uff5e"
_TILDE_STAND_IN = "\ufdd0"  # a noncharacter: no text has it, and NFKC leaves it alone


def tokenizer_json(pieces: Pieces) -> dict[str, object]:
    """The document that the `tokenizers` library reads."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(pieces, token_id) for token_id in special_ids(pieces)],
        "normalizer": {"type": "Sequence", "normalizers": _normalizers()},
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": "always",
            "split": True,
        },
        "post_processor": _template(pieces),
        "decoder": {
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": "always",
            "split": True,
        },
        "model": {
            "type": "Unigram",
            "unk_id": pieces.unk,
            "vocab": [list(pair) for pair in zip(pieces.texts, pieces.scores, strict=True)],
            "byte_fallback": False,
        },
    }


def tokenizer_config(pieces: Pieces, *, max_tokens: int) -> dict[str, object]:
    """What transformers wants to know beside `tokenizer.json`."""
    bos, eos = pieces.texts[pieces.bos], pieces.texts[pieces.eos]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_tokens,
        "bos_token": bos,
        "cls_token": bos,
        "eos_token": eos,
        "sep_token": eos,
        "pad_token": pieces.texts[pieces.pad],
        "unk_token": pieces.texts[pieces.unk],
        "mask_token": MASK,
        "clean_up_tokenization_spaces": False,
    }


def special_ids(pieces: Pieces) -> list[int]:
    """Ids that stand for no text, ascending."""
    return sorted({pieces.bos, pieces.eos, pieces.pad, pieces.unk, pieces.texts.index(MASK)})


def _added_token(pieces: Pieces, token_id: int) -> dict[str, object]:
    content = pieces.texts[token_id]
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": content == MASK,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _normalizers() -> list[dict[str, object]]:
    return [
        _replace_regex(_DROPPED, ""),
        _replace_regex(_SPACES, " "),
        _replace_text(_TILDE, _TILDE_STAND_IN),
        {"type": "NFKC"},
        _replace_text(_TILDE_STAND_IN, _TILDE),
        _replace_regex(" {2,}", " "),
        {"type": "Strip", "strip_left": False, "strip_right": True},
    ]


def _replace_regex(pattern: str, content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _replace_text(text: str, content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def _template(pieces: Pieces) -> dict[str, object]:
    """`<s> text </s>`, all of one segment type."""
    bos, eos = pieces.texts[pieces.bos], pieces.texts[pieces.eos]
    special = [{"SpecialToken": {"id": token, "type_id": 0}} for token in (bos, eos)]
    first = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [special[0], first, special[1]],
        "pair": [special[0], first, special[1], special[1], second, special[1]],
        "special_tokens": {
            token: {"id": token, "ids": [token_id], "tokens": [token]}
            for token, token_id in ((bos, pieces.bos), (eos, pieces.eos))
        },
    }
