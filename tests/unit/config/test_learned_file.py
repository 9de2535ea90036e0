"""The file of learned profiles: what is written is what is loaded, and nobody's own file is taken for it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import FIRST_LINE, LoadedSettings, load_settings, read_learned, render_learned
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.domain.units import seconds_from_ms
from reconciler.errors import ConfigurationError

Load = Callable[..., LoadedSettings]
Models = Mapping[str, tuple[PerformanceProfile, ...]]

LEARNING = Learning(
    on="2026-11-20", samples=1834, error=0.125, batch=(1, 48), input_tokens=(120, 2300), output_tokens=(20, 900.5)
)
H100 = PerformanceProfile(
    accelerator="H100",
    alpha_s=seconds_from_ms(6.958),
    beta_s=seconds_from_ms(0.042),
    gamma_s=seconds_from_ms(15.4),
    delta_s=seconds_from_ms(0.00034),
    max_batch_size=256,
    learning=LEARNING,
)
L4 = PerformanceProfile(accelerator="L4", alpha_s=seconds_from_ms(20.58), beta_s=0.0, max_batch_size=64)

RENDERED = """# Kept by reconciler fit --write: edits are lost.
apiVersion: reconciler.io/v1alpha1
kind: Configuration
models:
  - id: "123"
    profiles: []
  - id: meta-llama/Llama-3.1-8B-Instruct
    profiles:
      - accelerator: H100
        alpha: 6.958ms
        beta: 0.042ms
        gamma: 15.4ms
        delta: 0.00034ms
        maxBatchSize: 256
        learned:
          date: 2026-11-20
          samples: 1834
          error: 12.5%
          batch: [1, 48]
          inputTokens: [120, 2300]
          outputTokens: [20, 900.5]
      - accelerator: L4
        alpha: 20.58ms
        beta: 0ms
        maxBatchSize: 64
"""


def parse(text: str) -> Models:
    """As the file is loaded by everything else, without the places."""
    loaded = load_settings(
        repository_file=text.encode(), read_repository_file=lambda _: None, flags=Flags(), environment=Environment()
    )
    return {
        model.model_id: tuple(replace(profile, place=None) for profile in model.profiles)
        for model in loaded.settings.models
    }


def test_a_file_reads_as_people_write_one() -> None:
    models = {"meta-llama/Llama-3.1-8B-Instruct": (H100, L4), "123": ()}
    assert render_learned(models) == RENDERED


def test_order_does_not_matter() -> None:
    assert render_learned({"b": (L4, H100), "a": (H100,)}) == render_learned({"a": (H100,), "b": (H100, L4)})


def test_what_is_written_is_what_is_loaded() -> None:
    models: Models = {"meta-llama/Llama-3.1-8B-Instruct": (H100, L4), "123": ()}
    assert parse(render_learned(models)) == models


def test_nothing_learned_is_a_valid_file() -> None:
    assert parse(render_learned({})) == {}


times = st.floats(1e-9, 1e4)
amounts = st.floats(0, 1e9)
ranges = st.tuples(amounts, amounts).map(lambda pair: (min(pair), max(pair)))
names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
learnings = st.builds(
    Learning,
    on=st.dates().map(str),
    samples=st.integers(0, 2**31 - 1),
    error=st.floats(0, 100),
    batch=ranges,
    input_tokens=ranges,
    output_tokens=ranges,
)


@st.composite
def profiles(draw: st.DrawFn) -> PerformanceProfile:
    has_prefill, is_serial = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
    made = draw(st.sampled_from([1.0, 2.5]))
    return PerformanceProfile(
        accelerator=draw(names),
        alpha_s=draw(times),
        beta_s=draw(times | st.just(0.0)),
        gamma_s=draw(times) if has_prefill else None,
        delta_s=draw(times) if has_prefill else None,
        prompt_s=draw(times) if is_serial else None,
        overlap=draw(st.sampled_from([0.0, 0.25, 0.73])) if is_serial else 0.0,
        tokens_per_step=made,
        step_tokens=draw(st.sampled_from([made, 5.0])),
        max_batch_size=draw(st.integers(1, 2**31 - 1)),
        learning=draw(st.none() | learnings),
    )


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(names, st.lists(profiles(), max_size=2, unique_by=lambda each: each.accelerator), max_size=2))
def test_any_profiles_survive_to_six_digits(models: dict[str, list[PerformanceProfile]]) -> None:
    text = render_learned(models)
    loaded = parse(text)
    assert render_learned(loaded) == text
    assert parse(render_learned(loaded)) == loaded
    for model_id, written in models.items():
        for one, other in zip(sorted(written, key=lambda each: each.accelerator), loaded[model_id], strict=True):
            assert (other.accelerator, other.max_batch_size, other.law) == (
                one.accelerator,
                one.max_batch_size,
                one.law,
            )
            assert (other.overlap, other.tokens_per_step) == (one.overlap, one.tokens_per_step)
            assert other.step_tokens == one.step_tokens
            assert other.alpha_s == pytest.approx(one.alpha_s, rel=1e-5, abs=1e-15)
            assert (other.learning is None) == (one.learning is None)


def test_a_file_of_ours_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "learned.yaml"
    path.write_text(RENDERED)
    (h100, l4) = read_learned(path)["meta-llama/Llama-3.1-8B-Instruct"]
    assert (replace(h100, place=None), replace(l4, place=None)) == (H100, L4)
    assert str(h100.place) == f"{path}:9"


def test_windows_line_breaks_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "learned.yaml"
    path.write_bytes(RENDERED.replace("\n", "\r\n").encode())
    assert len(read_learned(path)) == 2


def test_no_file_has_no_profiles(tmp_path: Path) -> None:
    assert read_learned(tmp_path / "none.yaml") == {}


@pytest.mark.parametrize("content", [b"", RENDERED.partition("\n")[2].encode(), b" " + RENDERED.encode(), b"\xff\n"])
def test_somebodys_own_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"own\.yaml:1: expected the first line '# Kept by") as raised:
        read_learned(path)
    assert "somebody's own" in str(raised.value)


def test_a_damaged_file_of_ours_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "learned.yaml"
    path.write_text(RENDERED.replace("12.5%", "12.5"))
    with pytest.raises(ConfigurationError, match=r"learned\.yaml:18: error: .*expected a percentage like 20%"):
        read_learned(path)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        read_learned(tmp_path)


def test_it_is_read_with_extends_like_any_other(load: Load) -> None:
    loaded = load("extends: [.reconciler/profiles.yaml]", files={".reconciler/profiles.yaml": RENDERED})
    assert loaded.settings.models[1].profiles[0].learning == LEARNING
    assert RENDERED.splitlines()[0] == FIRST_LINE
