"""A model's chat template, taken apart at the contents."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from core.errors import ModelUnavailable

# Words no template contains, without white space that a template might strip.
_SYSTEM = "\ue000longleaf-system\ue000"
_USER = "\ue000longleaf-user\ue000"


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """The Jinja source of a chat template and the variables its tokenizer gives it."""

    source: str
    variables: dict[str, str]

    @classmethod
    def find(cls, folder: Path) -> ChatTemplate | None:
        """The template of a model folder, `None` if it has none."""
        path = folder / "tokenizer_config.json"
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        own_file = folder / "chat_template.jinja"
        source = (
            own_file.read_text(encoding="utf-8")
            if own_file.is_file()
            else _default_template(config.get("chat_template"))
        )
        if not source:
            return None
        tokens = {name: _content(config.get(name)) for name in ("bos_token", "eos_token", "pad_token")}
        return cls(source, tokens)

    def split(self, *, has_system: bool) -> tuple[str, str, str]:
        """What the template writes before, between and after system text and user text.

        Without a system text the middle is empty.

        Raises:
            ModelUnavailable: the template fails, or drops a content.
        """
        user = {"role": "user", "content": _USER}
        if not has_system:
            head, tail = _cut(self._render([user]), _USER)
            return head, "", tail
        try:
            rendered = self._render([{"role": "system", "content": _SYSTEM}, user])
        except ModelUnavailable:  # it refuses the system role, so the user's turn carries the text
            rendered = self._render([{"role": "user", "content": f"{_SYSTEM}\n\n{_USER}"}])
        head, rest = _cut(rendered, _SYSTEM)
        middle, tail = _cut(rest, _USER)
        return head, middle, tail

    def _render(self, messages: list[dict[str, str]]) -> str:
        """The prompt up to where the model's answer starts.

        Templates that think aloud are told not to, and none learns the date: it would change
        the prompt's first tokens every day, and with them every cached prefix.
        """
        try:
            return _compile(self.source).render(
                messages=messages,
                add_generation_prompt=True,
                enable_thinking=False,
                **self.variables,
            )
        except (TemplateError, TypeError) as error:
            raise ModelUnavailable(
                f"The model's chat template fails: {error}.", remedy="Use another model or mend its template."
            ) from error


class _GenerationTag(Extension):
    """`{% generation %}` marks what a model learns from in training; here its body is all."""

    tags = {"generation"}  # noqa: RUF012  # jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _compile(source: str) -> Template:
    """As transformers compiles them: sandboxed, blocks trimmed."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationTag]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _raise_exception
    return environment.from_string(source)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _cut(rendered: str, content: str) -> tuple[str, str]:
    before, found, after = rendered.partition(content)
    if not found or content in after:
        raise ModelUnavailable(
            "The model's chat template does not write each content once.", remedy="Use another model."
        )
    return before, after


def _default_template(template: Any) -> str:
    """A template is a text, or a list of named ones of which `default` is meant."""
    if isinstance(template, list):
        return next((str(entry["template"]) for entry in template if entry["name"] == "default"), "")
    return str(template or "")


def _content(token: Any) -> str:
    return str(token["content"] if isinstance(token, dict) else token or "")
