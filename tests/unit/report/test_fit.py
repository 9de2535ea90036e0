"""Learned profiles as people and programs read them."""

import json
from dataclasses import replace

import pytest

from reconciler.domain.identity import Finding, Place, ResourceKey, Severity
from reconciler.domain.profiles import FittedModel, Fitting, KeptProfiles, Learning, PerformanceProfile, UnusedVariant
from reconciler.report.fit import fit_json, fit_text
from reconciler.report.formatting import display_width

PATH = ".reconciler/profiles.yaml"
SEEN = "batch 1–131, tokens 480–560 → 150"
LEARNING = Learning(
    on="2026-11-20",
    samples=11_204,
    error=0.0184,
    batch=(1.2, 131.0),
    input_tokens=(480.4, 560.0),
    output_tokens=(150.0, 150.2),
)
PROFILE = PerformanceProfile(
    accelerator="H100",
    alpha_s=0.0080124,
    beta_s=0.0000421,
    gamma_s=0.0154,
    delta_s=0.00000034,
    max_batch_size=256,
    learning=LEARNING,
)
GIVEN = PerformanceProfile(
    accelerator="H100",
    alpha_s=0.006958,
    beta_s=0.000042,
    max_batch_size=256,
    place=Place(path="reconciler.yaml", line=57),
)


def key(name: str, cluster: str = "us-east") -> ResourceKey:
    return ResourceKey(cluster=cluster, namespace="llm", kind="VariantAutoscaling", name=name)


LLAMA = FittedModel(
    model_id="meta/llama-8b",
    accelerator="H100",
    variants=(key("llama"),),
    profile=PROFILE,
    samples=11_204,
    prefill_error=0.05,
    is_full_batch_seen=True,
)
QWEN = replace(
    LLAMA,
    model_id="Qwen/Qwen2.5-7B",
    accelerator="L4",
    profile=replace(PROFILE, accelerator="L4", alpha_s=0.0, gamma_s=None, delta_s=None, max_batch_size=32),
    is_full_batch_seen=False,
    notes=("nothing waited often enough to see a full batch", "prefill is not learned: why"),
)
FITTING = Fitting(
    now_s=1_795_183_500.0,
    since_s=7 * 86400.0,
    step_s=360.0,
    repository="https://github.example.com/acme/fleet",
    branch="main",
    commit="3f9c2ab" + "0" * 33,
    models=(LLAMA, QWEN),
)


def test_a_table_says_what_was_learned_and_what_to_do_next() -> None:
    assert (
        fit_text(FITTING)
        == f"""\
us-east at 3f9c2ab (main), 7d to 2026-11-20 14:05 UTC, a sample every 6m
2 profiles learned.

MODEL            ACCELERATOR     ALPHA       BETA    GAMMA       DELTA  BATCH  ERROR  SAMPLES  SEEN
meta/llama-8b    H100         8.012 ms  0.0421 ms  15.4 ms  0.00034 ms    256  1.8 %   11,204  {SEEN}
Qwen/Qwen2.5-7B  L4               0 ms  0.0421 ms        -           -    32+  1.8 %   11,204  {SEEN}

Notes
   nothing waited often enough to see a full batch
      Qwen/Qwen2.5-7B on L4
   prefill is not learned: why
      Qwen/Qwen2.5-7B on L4

Keep them with --write {PATH}, and add extends: [{PATH}] to reconciler.yaml.
"""
    )


def test_the_time_of_a_prompt_token_is_told_where_one_was_learned() -> None:
    profile = LLAMA.profile
    assert profile is not None
    serial = replace(profile, gamma_s=None, delta_s=None, prompt_s=0.000045, token_budget=2048)
    fitting = replace(FITTING, models=(replace(LLAMA, profile=serial), QWEN))
    assert "PROMPT TOKEN" in fit_text(fitting)
    assert "0.045 ms" in fit_text(fitting)
    assert "delta -, prompt token 0.045 ms, batch 256" in " ".join(fit_text(fitting, width=60).split())
    found = fit_json(fitting)["models"]
    assert isinstance(found, list)
    assert (found[0]["profile"]["prompt_s"], found[0]["profile"]["token_budget"]) == (0.000045, 2048)


def test_reasons_are_said_once_with_all_they_are_about() -> None:
    models = tuple(replace(LLAMA, model_id=name, profile=None, reason="no load") for name in ("a", "b"))
    unused = (UnusedVariant(variant=key("x"), reason="lost"), UnusedVariant(variant=key("y", "eu"), reason="lost"))
    text = fit_text(replace(FITTING, models=models, unused=unused, failures=("eu: 500",)))
    assert text.endswith("""\
0 profiles learned, 2 not.

Not learned
   no load
      a on H100, b on H100

Not used
   lost
      us-east/llm/x, eu/llm/y

Failed
   eu: 500
""")
    assert text.startswith("eu, us-east at 3f9c2ab (main)")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (GIVEN, "given: alpha 6.958 ms (reconciler.yaml:57 goes before what is learned)"),
        (replace(GIVEN, alpha_s=0.0075, gamma_s=0.03, delta_s=0.0), "given: gamma 30 ms, delta 0 ms"),
        (replace(GIVEN, alpha_s=0.008, max_batch_size=64, place=None), "given: batch 64 (this goes before"),
    ],
)
def test_a_given_profile_that_is_far_from_the_learned_one_stands_beside_it(
    given: PerformanceProfile, said: str
) -> None:
    assert f"\n   {said}" in fit_text(replace(FITTING, models=(replace(LLAMA, given=given),)))


def test_a_given_profile_that_is_near_is_not_mentioned() -> None:
    near = replace(GIVEN, alpha_s=0.0078, gamma_s=0.0153)
    assert "given" not in fit_text(replace(FITTING, models=(replace(LLAMA, given=near),)))


def test_a_given_batch_is_not_held_against_the_largest_one_that_was_seen() -> None:
    given = replace(GIVEN, alpha_s=0.008)
    model = replace(LLAMA, given=given, is_full_batch_seen=False, profile=replace(PROFILE, max_batch_size=9))
    assert "given" not in fit_text(replace(FITTING, models=(model,)))


def test_a_narrow_terminal_gets_lines_that_fit() -> None:
    models = (replace(LLAMA, given=GIVEN), QWEN)
    text = fit_text(replace(FITTING, models=models), width=72)
    assert max(map(display_width, text.splitlines())) <= 72
    assert "meta/llama-8b on H100\n   alpha 8.012 ms, beta 0.0421 ms, gamma 15.4 ms" in text


@pytest.mark.parametrize(
    ("kept", "last"),
    [
        ((True, False), f"Wrote {PATH}: commit it, and add extends: [{PATH}] to reconciler.yaml."),
        ((True, True), f"Wrote {PATH}: commit it."),
        ((False, False), f"{PATH} stays as it is; add extends: [{PATH}] to reconciler.yaml."),
        ((False, True), f"{PATH} stays as it is."),
    ],
)
def test_the_last_line_says_what_is_left_to_do(kept: tuple[bool, bool], last: str) -> None:
    is_changed, is_extended = kept
    file = KeptProfiles(path=PATH, text="", is_changed=is_changed, is_extended=is_extended)
    assert fit_text(FITTING, file).splitlines()[-1] == last


def test_a_configuration_that_reads_the_file_already_needs_no_advice() -> None:
    assert fit_text(FITTING, is_extended=True).splitlines()[-1] == f"Keep them with --write {PATH}."


def test_a_repository_without_variants_says_so() -> None:
    text = fit_text(replace(FITTING, models=(), branch=""))
    assert text == (
        "https://github.example.com/acme/fleet at 3f9c2ab, 7d to 2026-11-20 14:05 UTC, a sample every 6m\n"
        "No variants to learn from.\n"
    )


def test_what_must_be_fixed_stands_in_the_text() -> None:
    finding = Finding(place=Place(path="a.yaml", line=3), severity=Severity.ERROR, message="expected a number")
    assert "To fix\n   a.yaml:3: error: expected a number\n" in fit_text(replace(FITTING, findings=(finding,)))


def test_text_from_outside_cannot_leave_its_line() -> None:
    hostile = replace(LLAMA, model_id="a\nb\x1b[31m", profile=None, reason="x\ny")
    text = fit_text(replace(FITTING, models=(hostile,), unused=(UnusedVariant(variant=key("\x1b[0m"), reason="z"),)))
    assert "\x1b" not in text
    assert "\nb" not in text


def test_the_document_has_base_units_and_null_for_what_is_not_known() -> None:
    unlearned = replace(LLAMA, model_id="b", profile=None, reason="no load", samples=3, given=GIVEN)
    kept = KeptProfiles(path=PATH, text="", is_changed=True, is_extended=False)
    document = json.loads(json.dumps(fit_json(replace(FITTING, models=(LLAMA, unlearned)), kept), allow_nan=False))
    first, second = document["models"]
    assert document["version"] == 1
    assert first["profile"]["alpha_s"] == PROFILE.alpha_s
    assert first["profile"]["learned"]["samples"] == 11_204
    assert first["variants"][0]["namespace"] == "llm"
    assert (first["reason"], first["given"]) == (None, None)
    assert (second["profile"], second["reason"], second["samples"]) == (None, "no load", 3)
    assert second["given"]["place"] == "reconciler.yaml:57"
    assert second["given"]["gamma_s"] is None
    assert document["written"] == {"path": PATH, "is_changed": True, "is_extended": False}
    assert fit_json(FITTING)["written"] is None
