"""What is worth a trial: an untried accelerator that is cheaper even at the slow edge; it changes no decision."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.domain.plan import Plan
from reconciler.domain.priors import Weights
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.records import replace
from reconciler.domain.settings import ModelSettings
from reconciler.report.document import plan_json
from reconciler.report.plan_page import plan_page
from reconciler.report.text import plan_text
from reconciler.sizing.prior.shapes import SHAPES

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
A100 = PerformanceProfile(accelerator="A100", alpha_s=0.0135, beta_s=0.00012, prompt_s=6e-5, max_batch_size=128)

Told = Callable[..., Plan]


@pytest.fixture
def told(fleet: Any, make: Any) -> Told:
    """Plans of busy A100 replicas with the prices that are given."""
    fleet.set(service_classes=(make.service_class(itl_s=0.06),))
    fleet.add(replicas=8, runs_on="A100", model_id=LLAMA, profiles=(A100,))
    fleet.offer(30.0, model_id=LLAMA, input_tokens=1000.0, output_tokens=200.0)

    def plan(**prices: float) -> Plan:
        fleet.price(A100=4.0, **prices)
        found: Plan = fleet.plan()
        return found

    return plan


def test_a_cheaper_accelerator_is_told_and_changes_nothing(told: Told) -> None:
    without, plan = told(), told(H100=4.0)
    (trial,) = plan.trials
    least, median, most = trial.saves_per_hour
    assert 0 < least <= median <= most < trial.planned_cost_per_hour
    assert (trial.accelerator, trial.replica_cost_per_hour) == ("H100", 4.0)
    assert least == trial.planned_cost_per_hour - 4.0 * trial.replicas
    assert [each.desired for each in plan.decisions] == [each.desired for each in without.decisions]
    assert plan.totals == without.totals
    assert "corrected by the profile on A100" in trial.evidence


def test_what_saves_most_at_the_slow_edge_comes_first(told: Told) -> None:
    assert [each.accelerator for each in told(H100=4.2, H200=3.6).trials] == ["H200", "H100"]


def test_what_might_cost_more_at_the_slow_edge_is_no_trial(told: Told) -> None:
    assert told(H100=12.0).trials == ()


def test_what_measured_points_do_not_cover_is_no_trial(told: Told) -> None:
    assert told(L40S=0.1, MI300X=0.1, GB200=0.1).trials == ()


def test_an_accelerator_with_a_profile_is_planned_and_no_trial(told: Told, fleet: Any) -> None:
    fleet.model(model_id=LLAMA, profiles=(A100, replace(A100, accelerator="H100", alpha_s=0.008)))
    assert told(H100=4.0).trials == ()


def test_who_keeps_the_accelerator_is_not_asked_to_try(told: Told, fleet: Any) -> None:
    fleet.default(accelerator="keep")
    assert told(H100=4.0).trials == ()


def test_a_format_that_somebody_wrote_is_believed(told: Told, fleet: Any) -> None:
    fleet.set(models=(ModelSettings(model_id=LLAMA, weights=Weights.INT4),))
    assert told(H100=4.0).trials == ()


def test_the_sizes_in_a_config_json_are_used(told: Told, fleet: Any) -> None:
    """A model of the team's own that no table knows; without what its file says there is no trial."""
    stated = ModelSettings(model_id=LLAMA, shape_config="models/own/config.json", shape=SHAPES["llama-3.1-8b"])
    fleet.set(models=(stated,))
    assert [each.accelerator for each in told(H100=4.0).trials] == ["H100"]
    fleet.set(models=(replace(stated, shape=None),))
    assert told(H100=4.0).trials == ()


def test_only_the_costliest_models_are_looked_at(told: Told, fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a large fleet would take longer than its plan."""
    monkeypatch.setattr("reconciler.decision.engines.trials.MOST_SIZED", 1)
    fleet.add("small", replicas=6, runs_on="A100", model_id=LLAMA, profiles=(A100,), namespace="other")
    fleet.offer(20.0, model_id=LLAMA, namespace="other", input_tokens=1000.0, output_tokens=200.0)
    assert [each.model.namespace for each in told(H100=4.0).trials] == ["llm"]


def test_text_and_document_say_that_it_is_not_proven(told: Told) -> None:
    plan = told(H100=4.0)
    assert "Worth a trial" in plan_text(plan)
    assert "not proven: nothing moves before one replica has tried it" in plan_text(plan)
    document: Any = plan_json(plan)
    (trial,) = document["trials"]
    assert trial["accelerator"] == "H100"
    assert trial["saves_per_hour"]["low"] <= trial["saves_per_hour"]["high"]
    assert "trials" not in plan_json(told())
    (section,) = (each for each in plan_page(plan).sections if each.heading == "Worth a trial")
    assert "H100" in section.charts[0].marks[0].title
