"""Every value and step behind one variant, with its place."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.fleet import Outcome

Command = Callable[..., Outcome]


@pytest.fixture
def explain(command: Command, recording: Path) -> Command:
    """Explains a variant of the recording."""
    return lambda *arguments: command("explain", "--replay", recording, *arguments)


def test_a_change_is_explained_from_its_settings_to_its_verdict(explain: Command) -> None:
    outcome = explain("chat/llama")
    assert outcome.code == 0
    assert outcome.out.startswith("chat/llama: meta-llama/Llama-3.1-8B-Instruct on H100")
    for word in ("VALUE", "serviceClass", "standard", "reconciler.yaml:", "STEP", "demand", "capacity", "allocation"):
        assert word in outcome.out


def test_a_held_variant_is_explained_with_its_reason(explain: Command) -> None:
    outcome = explain("chat/lost")
    assert outcome.code == 0
    assert "scale target Deployment chat/lost is not in Git" in outcome.out


def test_json_holds_the_same(explain: Command) -> None:
    content = json.loads(explain("chat/llama", "-o", "json").out)
    assert content["version"] == 1


@pytest.mark.parametrize("name", ["prod/chat/llama", "variantautoscaling:chat/llama", "VariantAutoscaling:chat/llama"])
def test_a_longer_name_means_the_same_variant(explain: Command, name: str) -> None:
    assert explain(name) == explain("chat/llama")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("chat/lama", "did you mean chat/llama?"), ("x/y", "known: "), ("deployment:chat/llama", "no such resource")],
)
def test_a_wrong_name_is_5_and_gets_a_hint(explain: Command, name: str, hint: str) -> None:
    outcome = explain(name)
    assert outcome.code == 5
    assert hint in outcome.err


def test_a_plain_variant_takes_less_than_40_lines_and_all_of_it_more(command: Command, recording: Path) -> None:
    short = command("explain", "chat/llama", "--replay", recording).out.splitlines()
    full = command("explain", "chat/llama", "--replay", recording, "-v").out.splitlines()
    assert short[1].startswith("STEP ")
    assert len(short) < 40 < len(full)
    assert short[-1].startswith("-v shows ")
    assert any(line.startswith("QUERY ") for line in full)
    assert short.index(next(line for line in short if line.startswith("QUERY "))) < short.index(
        next(line for line in short if line.startswith("VALUE "))
    )
    assert not any(line.startswith("FIGURE") for line in short)
