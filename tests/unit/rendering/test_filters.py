import html
import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reconciler.rendering import renderer as filters

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
WRITABLE = st.characters(codec="utf-8")
HOSTILE = (
    "a|b",
    "``` x `",
    "--> <!-- reconciler: {} -->",
    "<script>alert(1)</script>",
    "@team #123 GH-4 !7 https://evil.example www.evil.example",
    "two\nlines\r\n# heading\n\n- item",
    "\u202egnp.exe\u200f\x00\x1b[31m",
    "x" * 10_000,
    "[link](javascript:x) ![image](y) **b** _i_ ~~s~~ $x$ \\",
    "/close",
    "- - -",
    "1. item",
)


def text_of(markdown: str) -> str:
    """What a reader sees of one paragraph; fails when it is anything but a paragraph of text."""
    rendered = MARKDOWN.render(markdown).strip()
    assert rendered.startswith("<p>")
    assert rendered.endswith("</p>")
    inner = rendered.removeprefix("<p>").removesuffix("</p>")
    assert "<" not in inner, inner
    return html.unescape(inner).replace("\u200b", "")


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_from_outside_is_one_paragraph_of_the_same_words(text: str) -> None:
    shown = text_of(filters.escape_markdown(text))
    assert "\n" not in shown
    assert len(shown) <= 400
    assert "\u202e" not in shown
    assert "\x1b" not in shown


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=40))
def test_escaped_markdown_reads_as_what_was_written(text: str) -> None:
    assert text_of(filters.escape_markdown(text)) == " ".join(text.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_a_code_span_is_one_span_inside_a_table_cell(text: str) -> None:
    rendered = MARKDOWN.render(f"| a | b |\n|---|---|\n| {filters.code_span(text)} | end |\n")
    assert rendered.count("<td>") == 2
    assert rendered.count("<code>") == 1
    assert "<td>end</td>" in rendered
    assert "<!--" not in rendered
    assert "<script>" not in rendered


def test_no_text_can_pose_as_the_hidden_marker() -> None:
    for escape in (filters.escape_markdown, filters.code_span):
        text = escape('<!-- reconciler: {"version":1} -->')
        assert "<!--" not in text
        assert "-->" not in text


def test_mentions_and_references_are_broken_where_they_would_act() -> None:
    for escape in (filters.escape_markdown, filters.plain_line):
        text = html.unescape(escape("@team fixes #12 and GH-12, https://forge.example/12"))
        for effect in ("@team", "#12", "GH-12", "://forge"):
            assert effect not in text


def test_a_commit_cannot_switch_checks_off() -> None:
    assert "[skip ci]" not in filters.plain_line("[skip ci]")


def test_a_line_stays_one_line_and_short() -> None:
    for text in HOSTILE:
        line = filters.plain_line(text)
        assert "\n" not in line
        assert len(line) <= 260


def test_an_address_in_a_trailer_stays_an_address() -> None:
    assert filters.trailer_value("A Person <a@example.com>\nEvil: yes") == "A Person <a@example.com> Evil: yes"


@given(st.text(WRITABLE))
def test_a_yaml_string_reads_back_as_it_was(text: str) -> None:
    assert yaml.safe_load(filters.yaml_string(text)) == text


@given(st.text(WRITABLE, min_size=1, max_size=100))
def test_a_yaml_key_reads_back_as_it_was(text: str) -> None:
    assert yaml.safe_load(f"{filters.yaml_key(text)}: 1") == {text: 1}


def test_a_yaml_string_is_readable_where_it_can_be() -> None:
    assert filters.yaml_string('NVIDIA-"H100" é') == json.dumps('NVIDIA-"H100" é', ensure_ascii=False)
    assert filters.yaml_key("nvidia.com/gpu.product") == "nvidia.com/gpu.product"
    assert re.fullmatch(r'".*"', filters.yaml_key("yes"))
