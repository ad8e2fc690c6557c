"""Chat templates taken apart at the contents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import ModelUnavailable
from inference.chat_template import ChatTemplate

CHATML = (
    "{% for message in messages %}"
    "{% if loop.first and messages[0]['role'] != 'system' %}<|im_start|>system\nDefault.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "<turn>{{ message['content'] | trim }}</turn>{% endfor %}{{ '<turn>model\n' }}"
)


def test_our_system_text_takes_the_place_of_the_default_one() -> None:
    head, middle, tail = ChatTemplate(CHATML, {}).split(has_system=True)
    assert head == "<|im_start|>system\n"
    assert middle == "<|im_end|>\n<|im_start|>user\n"
    assert tail == "<|im_end|>\n<|im_start|>assistant\n"


def test_without_a_system_text_the_default_stays_and_the_middle_is_empty() -> None:
    head, middle, tail = ChatTemplate(CHATML, {}).split(has_system=False)
    assert head == "<|im_start|>system\nDefault.<|im_end|>\n<|im_start|>user\n"
    assert middle == ""
    assert tail == "<|im_end|>\n<|im_start|>assistant\n"


def test_a_template_without_system_role_gets_the_text_in_the_users_turn() -> None:
    template = ChatTemplate(NO_SYSTEM, {"bos_token": "<s>"})
    assert template.split(has_system=True) == ("<s><turn>", "\n\n", "</turn><turn>model\n")


def test_a_template_that_drops_the_content_is_refused() -> None:
    with pytest.raises(ModelUnavailable, match="each content once"):
        ChatTemplate("{{ messages | length }}", {}).split(has_system=False)


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    with pytest.raises(ModelUnavailable, match="template fails"):
        ChatTemplate("{{ messages.__class__.__mro__ }}", {}).split(has_system=False)


def test_tags_that_mark_what_a_model_is_trained_on_change_nothing() -> None:
    marked = CHATML.replace(
        "{{ message['content'] }}", "{% generation %}{{ message['content'] }}{% endgeneration %}"
    )
    assert ChatTemplate(marked, {}).split(has_system=True) == ChatTemplate(CHATML, {}).split(has_system=True)


def test_the_date_does_not_enter_the_prompt() -> None:
    dated = "{% if strftime_now is defined %}{{ strftime_now('%d %b') }}{% else %}no date{% endif %}"
    head, _, _ = ChatTemplate(dated + CHATML, {}).split(has_system=True)
    assert head.startswith("no date")


def test_templates_are_found_in_their_own_file_or_in_the_configuration(tmp_path: Path) -> None:
    assert ChatTemplate.find(tmp_path) is None
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "configured"}]
    config = {"chat_template": named, "bos_token": {"content": "<s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    found = ChatTemplate.find(tmp_path)
    assert found is not None
    assert (found.source, found.variables["bos_token"]) == ("configured", "<s>")
    (tmp_path / "chat_template.jinja").write_text("own file", encoding="utf-8")
    found = ChatTemplate.find(tmp_path)
    assert found is not None
    assert found.source == "own file"
