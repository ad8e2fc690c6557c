"""Models' own tokenizers, by the `tokenizers` library; torch and transformers stay out."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as FastTokenizer

from core.errors import ModelUnavailable
from inference.chat_template import ChatTemplate
from inference.protocols import ChatFrame
from inference.token_bytes import TokenSpeller

TOKENIZER_FILE = "tokenizer.json"
_MARKUP = re.compile(r"^(<.+>|\[.+\])$", re.DOTALL)
_MAX_KEPT_TEXTS = 512


class HuggingFaceTokenizer:
    """Tokenizer and chat tokenizer of a model folder; safe to share between threads.

    Text is only ever text: `<|im_end|>` typed inside a document becomes the tokens of its
    characters, never the id that ends a turn. Only `chat_frame` yields such ids.
    """

    def __init__(self, folder: Path) -> None:
        """Raises: ModelUnavailable: the folder has no `tokenizer.json`."""
        self._folder = folder
        self._content = FastTokenizer.from_str(json.dumps(_without_markup(_read_tokenizer(folder))))
        self._template = ChatTemplate.find(folder)
        self._frames: dict[bool, ChatFrame] = {}
        # Prompts repeat: instructions always, passages of hot documents often.
        self._encode = lru_cache(maxsize=_MAX_KEPT_TEXTS)(self._encode_content)
        self._revision = _revision(folder, self._template)

    @property
    def revision(self) -> str:
        """Changes whenever token ids or the chat template would."""
        return self._revision

    def encode(self, text: str) -> list[int]:
        return list(self._encode(text))

    def _encode_content(self, text: str) -> tuple[int, ...]:
        return tuple(self._content.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the tokens, special tokens written out."""
        return str(self._frame.decode(list(token_ids), skip_special_tokens=False))

    def count(self, text: str) -> int:
        return len(self._content.encode(text, add_special_tokens=False))

    @property
    def vocabulary_size(self) -> int:
        return self._speller.vocabulary_size

    def token_bytes(self, token_ids: Sequence[int]) -> list[bytes]:
        return self._speller.spell(token_ids)

    @cached_property
    def _speller(self) -> TokenSpeller:
        return TokenSpeller(self._frame)

    def token_starts(self, text: str) -> list[int]:
        offsets = self._content.encode(text, add_special_tokens=False).offsets
        return [start for start, _ in offsets]

    def chat_frame(self, *, has_system: bool) -> ChatFrame:
        """The template's fixed token ids around system text and user text.

        Without a system text the frame has no `middle`, and `head` keeps the default system
        prompt of a template that has one. A template that knows no system role gets the system
        text at the start of the user's turn, a blank line between them.

        Raises:
            ModelUnavailable: the model has no chat template.
        """
        if has_system not in self._frames:  # the same for every prompt, and costly to render
            self._frames[has_system] = self._render_frame(has_system=has_system)
        return self._frames[has_system]

    def _render_frame(self, *, has_system: bool) -> ChatFrame:
        if self._template is None:
            raise ModelUnavailable(
                f"The model in {self._folder} has no chat template.",
                remedy="Use an instruction-tuned model.",
            )
        parts = self._template.split(has_system=has_system)
        head, middle, tail = (self._encode_frame(part) for part in parts)
        return ChatFrame(head=head, middle=middle, tail=tail)

    @cached_property
    def _frame(self) -> FastTokenizer:
        """The tokenizer as the model ships it, for text that we wrote; not every user needs it."""
        return FastTokenizer.from_str(json.dumps(_read_tokenizer(self._folder)))

    def _encode_frame(self, text: str) -> tuple[int, ...]:
        return tuple(self._frame.encode(text, add_special_tokens=False).ids)


def load_input_tokenizer(folder: Path, *, max_tokens: int) -> FastTokenizer:
    """A tokenizer that yields an encoder's inputs: special tokens added, cut, padded to the longest.

    Raises:
        ModelUnavailable: the folder has no `tokenizer.json`.
    """
    document = _read_tokenizer(folder)
    tokenizer = FastTokenizer.from_str(json.dumps(document))
    tokenizer.encode_special_tokens = True  # typed special tokens are text
    tokenizer.enable_truncation(max_tokens)
    pad_token, pad_id = _padding(folder, tokenizer)
    tokenizer.enable_padding(pad_id=pad_id, pad_token=pad_token)
    return tokenizer


def _read_tokenizer(folder: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads((folder / TOKENIZER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"{folder} has no readable {TOKENIZER_FILE}: {error}.", remedy="Run longleaf models prepare."
        ) from error
    # Some models ship a truncation and a padding that suited their training.
    return {**document, "truncation": None, "padding": None}


def _padding(folder: Path, tokenizer: FastTokenizer) -> tuple[str, int]:
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    token = config.get("pad_token") or "[PAD]"
    content = str(token["content"] if isinstance(token, dict) else token)
    return content, tokenizer.token_to_id(content) or 0


def _without_markup(document: dict[str, Any]) -> dict[str, Any]:
    """The same tokenizer, blind to special tokens and to added tokens that look like markup.

    They are taken out of the added tokens and made unreachable in the vocabulary, for a Unigram
    model would match them there. Ids of all other tokens stay. Added tokens that are plain text
    (runs of spaces, say) remain.
    """
    added = document.get("added_tokens") or []
    hidden = [token for token in added if token["special"] or _MARKUP.match(token["content"])]
    hidden_ids = {token["id"] for token in hidden}
    kept = [token for token in added if token["id"] not in hidden_ids]
    model = _hide(document["model"], {token["content"] for token in hidden})
    return {**document, "added_tokens": kept, "model": model, "post_processor": None}


def _hide(model: dict[str, Any], contents: set[str]) -> dict[str, Any]:
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # Unigram: an id is a position, so pieces must stay in place
        # Spaces become metaspaces before pieces are matched, so no text reaches a piece with one.
        renamed = [[f" {piece}" if piece in contents else piece, score] for piece, score in vocabulary]
        return {**model, "vocab": renamed}
    unknown = model.get("unk_token")
    kept = {
        piece: token_id for piece, token_id in vocabulary.items() if piece not in contents or piece == unknown
    }
    return {**model, "vocab": kept}


def _revision(folder: Path, template: ChatTemplate | None) -> str:
    whole = hashlib.sha256((folder / TOKENIZER_FILE).read_bytes())
    whole.update(repr(template).encode())
    return whole.hexdigest()[:16]
