"""What the page on guard rails says that rules say is what they say: every example is tried on a fleet."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.observed import Observation, Performance
from reconciler.domain.proposals import Promise, PromisedLatency, ProposalState
from reconciler.domain.recording import WrittenCounts
from reconciler.domain.settings import PoolSettings
from reconciler.policy.files import read_policy
from reconciler.policy.judging import KINDS
from tests.unit.decision.conftest import Fleet, Make, key, service_class

FOLDER = Path(__file__).parents[3] / "policies"
PAGE = (FOLDER / "README.md").read_text()
HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Policy\nrules:\n"
HOUR_S = 3600.0


def at(fleet: Fleet, moment: str) -> None:
    fleet.now_s = datetime.fromisoformat(moment).timestamp()


def grows(before: int = 2, after: int = 5, **fields: Any) -> Callable[[Fleet], None]:
    """A variant whose load asks for so many replicas; one carries 9.99 requests a second."""

    def build(fleet: Fleet) -> None:
        fleet.add(replicas=before, **fields)
        model, namespace = fields.get("model_id"), fields.get("namespace")
        named = {name: each for name, each in (("model_id", model), ("namespace", namespace)) if each}
        fleet.offer(after * 9.5, **named)

    return build


def settles(fleet: Fleet) -> None:
    at(fleet, "2026-11-23T14:20+00:00")
    grows()(fleet)
    fleet.written[key("llama")] = WrittenCounts(
        variant=key("llama"), counts=((fleet.now_s - 9 * HOUR_S, 1), (fleet.now_s - 900.0, 2))
    )


def on_saturday(fleet: Fleet) -> None:
    at(fleet, "2026-11-21T12:00+00:00")
    fleet.default(headroom=3.0)
    fleet.add(replicas=2)
    fleet.offer(12.0)  # carried by what runs: no repair


def on_saturday_in_need(fleet: Fleet) -> None:
    at(fleet, "2026-11-21T12:00+00:00")
    grows()(fleet)


def on_monday(fleet: Fleet) -> None:
    at(fleet, "2026-11-23T07:00+00:00")
    grows(2, 1)(fleet)


def spends(fleet: Fleet) -> None:
    at(fleet, "2026-11-23T07:00+00:00")
    fleet.default(headroom=0.5)
    grows(6, 6)(fleet)
    counts = ((fleet.now_s - 40 * 24 * HOUR_S, 6),)
    fleet.written[key("llama")] = WrittenCounts(variant=key("llama"), counts=counts)


def eleven(fleet: Fleet) -> None:
    for number in range(11):
        grows(model_id=f"m{number}", name=f"v{number}")(fleet)


def ten_and_one_that_saves(fleet: Fleet) -> None:
    fleet.price(H100=6.0)
    for number in range(10):
        grows(model_id=f"m{number}", name=f"v{number}")(fleet)
    grows(9, 4, model_id="idle", name="idle")(fleet)


def three_variants(fleet: Fleet) -> None:
    for name in ("a", "b", "c"):
        fleet.add(name, replicas=2, max_replicas=3)
    fleet.offer(85.0)


def on_spot(fleet: Fleet) -> None:
    """Three beside it run elsewhere, and as many more may run on spot devices."""
    (cluster,) = fleet.settings.clusters
    pools = (PoolSettings(name="l4-spot", device="L4", devices=None, tier="spot"),)
    fleet.set(clusters=(replace(cluster, pools=pools),))
    fleet.add("cheap", replicas=2, runs_on="L4", profiles=(Make.profile("L4", 10),))
    fleet.add("safe", replicas=3, max_replicas=3, min_replicas=3)
    fleet.offer(85.0)


def reports(replicas: int, per_s: float = 55.0, **fields: Any) -> Callable[[Fleet], None]:
    def build(fleet: Fleet) -> None:
        fleet.add(replicas=4)
        fleet.offer(per_s)
        fleet.remember(*(per_s,) * 60)
        seen = Observation(performance=Performance(itl_s=0.045, wait_s=0.01), replicas_reporting=replicas)
        fleet.observations[key("llama")] = replace(seen, arrival_rate_per_s=per_s, **fields)

    return build


def half_known(fleet: Fleet) -> None:
    reports(4)(fleet)
    fleet.remember(*(math.nan,) * 30, *(55.0,) * 30)


def forecast(fleet: Fleet) -> None:
    reports(4)(fleet)
    latency = PromisedLatency(name="itl", statistic="mean", target_s=0.05, mean_s=0.03)
    promise = Promise(
        resource=str(key("llama")),
        unit="req/s",
        demand=60.0,
        output_tokens=100.0,
        input_tokens=100.0,
        latencies=(latency,),
    )
    change = Make.change("llama", "1 x H100", "4 x H100")
    merged: dict[str, Any] = {"state": ProposalState.MERGED, "closed_at_s": fleet.now_s - 9 * HOUR_S, "number": 7}
    fleet.propose(change, promises=(promise,), **merged)


def urgent(fleet: Fleet) -> None:
    fleet.set(service_classes=(replace(service_class(), priority=10),))
    grows()(fleet)


def at_night(fleet: Fleet) -> None:
    at(fleet, "2026-11-23T22:00+00:00")
    grows(5, 1)(fleet)


def asks_for_too_much(fleet: Fleet) -> None:
    """Ten are its minimum, and its load needs one."""
    grows(3, 1, min_replicas=10)(fleet)


WORLDS: dict[str, tuple[Callable[[Fleet], None], ...]] = {
    "bounds": (grows(10, 15),),
    "step": (grows(8, 1),),
    "deadband": (grows(4, 3, namespace="batch"),),
    "cooldown": (settles,),
    "freeze": (on_saturday, on_saturday_in_need),
    "schedule": (on_monday,),
    "budget": (spends,),
    "changeLimit": (eleven, ten_and_one_that_saves),
    "accelerators": (grows(namespace="prod", runs_on="A100", profiles=(Make.profile("A100"),)),),
    "availability": (three_variants,),
    "spot": (on_spot,),
    "metrics": (reports(3), reports(4, age_s=90.0), reports(4, 0.04), half_known, forecast),
    "approval": (grows(1, 3),),
    "autoMerge": (grows(labels={"tier": "batch"}),),
    "labels": (urgent,),
    "reviewers": (grows(namespace="search"),),
    "deny": (grows(namespace="lab"),),
    "hold": (at_night,),
    "clamp": (asks_for_too_much,),
    "requireApproval": (grows(model_id="llama-70b"),),
    "label": (grows(2, 30),),
}
"""Of each kind, fleets to which its example speaks, in the order of its sentences."""


def told(fleet: Fleet) -> set[str]:
    """All that plans tell of rules: what waits, what is held, and the steps of changes."""
    found = set()
    for each in fleet.plan().decisions:
        found |= {hold.words for hold in (each.hold, each.waiting) if hold is not None}
        found |= {step.reason for step in each.steps if step.stage == "policy"}
    return found


def rules_of(example: str, sentence: str) -> Any:
    """Those of a preset where the sentence names one, else the example in a team's file."""
    named = re.search(r"\((policies/[a-z]+\.yaml):", sentence)
    path = named[1] if named else ""
    content = (FOLDER.parent / path).read_bytes() if (FOLDER.parent / path).is_file() else (HEADER + example).encode()
    return read_policy(path, content).rules


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_of_the_page_is_what_is_told(kind: str, fleet: Fleet) -> None:
    text = re.split(r"^##", PAGE.split(f"\n### `{kind}`\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    example = text.split("```yaml\n")[1].split("```")[0]
    sentences = [
        " ".join(each.split()) for each in re.findall(r"^(?:- )?`((?:[a-z ]+: )?rule [^`]+)`$", text, re.MULTILINE)
    ]
    assert len(sentences) == len(WORLDS[kind])
    for sentence, build in zip(sentences, WORLDS[kind], strict=True):
        tried = replace(fleet, settings=fleet.settings, **{name: type(getattr(fleet, name))() for name in FRESH})
        tried.set(rules=rules_of(example, sentence))
        build(tried)
        assert sentence in told(tried)


FRESH = ("resources", "workloads", "loads", "past", "observations", "written", "proposals")
"""Of a fleet: what a world fills."""
