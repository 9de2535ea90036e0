"""Which engine sizes a model, and what is said of the choice."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reconciler
from reconciler.decision.engines.registry import choose_engines
from reconciler.domain.snapshot import Form
from reconciler.domain.variant_settings import Engine


def choice(fleet: Any) -> Any:
    (found,) = choose_engines(fleet.variants(), fleet.loads).values()
    return found


def test_a_given_profile_and_a_class_make_a_queue(fleet: Any) -> None:
    fleet.add()
    assert (choice(fleet).engine, choice(fleet).reason) == (Engine.QUEUEING, "auto: profile given")


def test_without_a_profile_saturation_answers(fleet: Any) -> None:
    fleet.add(form=Form.TARGET, runs_on="A100")
    assert choice(fleet).engine is Engine.SATURATION
    assert choice(fleet).reason == "auto: llm/llama has no profile, given or learned"


def test_without_a_class_saturation_answers(fleet: Any) -> None:
    fleet.set(defaults={})
    fleet.add()
    assert choice(fleet).reason == "auto: llm/llama has no service class"


def test_a_class_that_is_missing_does_not_change_the_engine(fleet: Any) -> None:
    fleet.default(serviceClass="premum")
    fleet.add()
    assert choice(fleet).engine is Engine.QUEUEING
    assert "premum" in fleet.decision().hold.words


def test_one_variant_that_cannot_be_queued_decides_for_its_model(fleet: Any) -> None:
    fleet.add("llama")
    fleet.add("other", form=Form.TARGET, runs_on="A100")
    assert choice(fleet).engine is Engine.SATURATION
    assert choice(fleet).reason == "auto: llm/other has no profile, given or learned"


def test_a_setting_names_the_engine(fleet: Any) -> None:
    fleet.add(annotations={"sizing.engine": "wva-v1"})
    assert choice(fleet).engine is Engine.WVA_V1
    assert choice(fleet).reason == "annotation, apps/llm/llama.yaml:9"


def test_two_settings_for_one_model_hold_it(fleet: Any) -> None:
    fleet.add("llama", annotations={"sizing.engine": "wva-v1"})
    fleet.add("other", annotations={"sizing.engine": "queueing"})
    fleet.offer(25.0)
    reason = fleet.decision("llama").hold.words
    assert reason.startswith("one model has one sizing engine: llm/other asks for queueing")


def test_tracking_without_metric_targets_holds(fleet: Any) -> None:
    fleet.add(annotations={"sizing.engine": "kthena-v1"})
    fleet.offer(25.0)
    assert fleet.decision().hold.words == "kthena-v1 needs metric targets, and no policy gives any for it"


def test_a_profile_that_was_learned_says_so(fleet: Any, make: Any) -> None:
    learned = make.learned("H100")
    fleet.add(profiles=(replace(learned, place=make.place(".reconciler/profiles.yaml", 4)),))
    assert choice(fleet).reason == "auto: profile learned at .reconciler/profiles.yaml:4"


def test_requests_unlike_those_it_was_learned_from_are_no_queue(fleet: Any, make: Any) -> None:
    fleet.add(profiles=(make.learned("H100", output_tokens=(10.0, 20.0)),))
    fleet.offer(25.0)
    assert choice(fleet).engine is Engine.SATURATION
    assert "does not reach" in choice(fleet).reason


def test_engines_are_told_apart_behind_their_port_alone() -> None:
    package = Path(reconciler.__file__).parent
    sources = (path for path in package.rglob("*.py") if not path.is_relative_to(package / "decision" / "engines"))
    assert [str(path) for path in sources if re.search(r"\bEngine\.[A-Z]", path.read_text())] == []


@pytest.mark.parametrize(
    ("hit_rates", "replicas"),
    [((), 3), ((0.8, 0.8), 3), ((0.76, 0.78), 3), ((0.0, 0.8), 3), ((0.1, 0.3), 8), ((0.0, 0.0), 12)],
    ids=["not measured", "as learned", "chance", "one has just started", "colder", "cold"],
)
def test_a_cache_that_went_cold_is_sized_as_it_is(
    fleet: Any, make: Any, hit_rates: tuple[float, ...], replicas: int
) -> None:
    """Prompts of 1,000 tokens at 0.1 ms each: 20 ms with 80 % of them in the cache, 100 ms without."""
    learned = make.learned("H100", cached=0.8, batch=(1.0, 200.0))
    serial = replace(learned, alpha_s=0.01, prompt_s=1e-4, token_budget=8192, max_batch_size=200)
    fleet.add(replicas=3, profiles=(serial,))
    fleet.fill(", ".join(".10/-" for _ in hit_rates))
    owner = next(iter(fleet.replicas), None)
    if owner is not None and hit_rates:
        fleet.replicas[owner] = tuple(
            replace(each, prefix_hit_rate=rate) for each, rate in zip(fleet.replicas[owner], hit_rates, strict=True)
        )
    fleet.offer(40.0, input_tokens=1000.0, output_tokens=20.0)
    assert fleet.decision().desired.replicas == replicas
