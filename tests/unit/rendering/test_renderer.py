from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigurationError
from reconciler.rendering.renderer import Renderer


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    name: str = "llama"
    replicas: int = 3
    flag: bool = False
    secret: object = object()


def render(template: str) -> str:
    return Renderer({"t.j2": template}).render("t.j2", View())


def test_variables_are_the_fields_of_the_view() -> None:
    assert render("{{ name|code }} {{ replicas }}\n") == "`llama` 3\n"


@pytest.mark.parametrize("template", ["{{ name }}", "{{ name ~ 'x' }}", "{{ flag }}", "{{ secret }}", "{{ 'text' }}"])
def test_nothing_prints_without_a_filter(template: str) -> None:
    with pytest.raises(ConfigurationError, match="without a filter"):
        render(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ unknown|md }}",
        "{{ name.missing|md }}",
        "{{ name.__class__|md }}",
        "{{ name.__class__.__mro__|md }}",
        "{{ cycler|md }}",
        "{{ range(3)|md }}",
        "{{ name|upper }}",
        "{{ name|attr('x')|md }}",
        "{% include '/etc/passwd' %}",
        "{% include '../errors.py' %}",
        "{% if %}",
    ],
)
def test_what_is_not_offered_is_an_error_that_names_the_template(template: str) -> None:
    with pytest.raises(ConfigurationError, match=r"template t\.j2"):
        render(template)


def test_the_same_view_gives_the_same_text() -> None:
    assert render("{{ name|md }}") == render("{{ name|md }}")


def test_the_first_view_that_fits_is_taken() -> None:
    renderer = Renderer({"t.j2": "{{ name|line }}"})
    views = [View(name="a" * 100), View(name="b" * 20), View(name="c")]
    assert renderer.render_within("t.j2", views, limit=50) == "b" * 20


def test_what_never_fits_is_cut_at_a_line_and_keeps_its_marker() -> None:
    template = "{{ name|line }}\n{{ name|line }}\n{{ name|line }}\n<!-- m -->\n"
    text = Renderer({"t.j2": template}).render_within("t.j2", [View(name="a" * 60)], limit=150, marker="<!-- m -->")
    assert text.startswith("a" * 60 + "\n\n*Cut here")
    assert text.endswith("\n<!-- m -->\n")
    assert len(text) <= 150


def test_a_cut_text_ends_its_code_blocks_and_details() -> None:
    template = "<details><summary>How</summary>\n\n```text\n" + "a line\n" * 500 + "```\n</details>\n<!-- m -->\n"
    text = Renderer({"t.j2": template}).render_within("t.j2", [View(name="a")], limit=1500, marker="<!-- m -->")
    assert text.count("```") == 2
    assert text.count("</details>") == 1
    assert text.index("</details>") < text.index("*Cut here")
    assert len(text) <= 1500


@given(st.text(max_size=3000), st.integers(100, 2500))
def test_a_text_never_exceeds_its_limit_and_keeps_its_marker(template: str, limit: int) -> None:
    template = template.replace("{", "").replace("#", "") + "\n<!-- m -->\n"
    text = Renderer({"t.j2": template}).render_within("t.j2", [View(name="a")], limit=limit, marker="<!-- m -->")
    assert len(text) <= limit
    assert text.endswith("<!-- m -->\n")


def test_shipped_templates_are_read_and_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Renderer()
    monkeypatch.setattr("reconciler.rendering.renderer.shipped_templates", lambda: pytest.fail("read again"))
    Renderer()
