"""How long rules take: 10,000 variants under 20 rules, five of them in CEL, alone and within a whole plan."""

import gc
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from reconciler.domain.identity import ModelKey, Place, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.recording import Recording
from reconciler.domain.rules import Rule
from reconciler.domain.snapshot import Form, StatusShape, Variant
from reconciler.domain.variant_settings import VariantSettings
from reconciler.domain.written import DocumentRef
from reconciler.pipeline.prepare import prepare
from reconciler.pipeline.recording import read_recording, write_recording
from reconciler.policy.files import read_policy
from reconciler.policy.judging import RuleBook
from reconciler.policy.port import Change, Subject
from reconciler.rendering.renderer import Renderer
from tests.bench.fleet import Fleet
from tests.bench.observing import observe_fleet
from tests.bench.processes import run_python

CHANGES = 10_000
NOW_S = 1_800_000_000.0
RULES = Path(__file__).with_name("judging.yaml")


def measure() -> dict[str, Any]:
    """Seconds of processor time for the numbers that rules leave, and for the verdicts; no collector, as in a run."""
    rules = _rules()
    book, changes = RuleBook(rules), [_change(number) for number in range(CHANGES)]
    book.judge(changes[0])  # compiled once a run
    gc.disable()
    started_s = time.process_time()
    limits = [book.limits(each.subject) for each in changes]
    limited_s = time.process_time()
    said = [book.judge(each) for each in changes]
    ended_s = time.process_time()
    gc.enable()
    return {
        "rules": len(rules),
        "changes": len(changes),
        "limits, s": round(limited_s - started_s, 3),
        "verdicts, s": round(ended_s - limited_s, 3),
        "together, s": round(ended_s - started_s, 3),
        "limited": sum(each.most is not None for each in limits),
        "said": sum(map(len, said)),
    }


def measure_plan(variants: int = CHANGES, repeats: int = 3) -> dict[str, Any]:
    """Seconds of processor time of a whole plan without rules and with them, turn by turn in one process; medians."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "fleet.zip"
        write_recording(observe_fleet(Fleet(variants), Path(directory) / "fleet.git").observed.recording, path)
        turns = json.loads(run_python("tests.bench.judging", str(path), str(repeats)).output)
    without_s, with_s = (median(each) for each in zip(*turns, strict=True))
    return {
        "variants": variants,
        "without rules, s": round(without_s, 2),
        "with 20 rules, s": round(with_s, 2),
        "growth, %": round((with_s / without_s - 1) * 100, 1),
    }


def _time_plans(path: Path, repeats: int) -> list[tuple[float, float]]:
    _time_plan(path, ())  # imports, and what is compiled once
    return [(_time_plan(path, ()), _time_plan(path, _rules())) for _ in range(repeats)]


def _time_plan(path: Path, rules: Sequence[Rule]) -> float:
    gc.collect()
    started_s = time.process_time()
    recording: Recording = read_recording(path)
    prepare(replace(recording, settings=replace(recording.settings, rules=tuple(rules))), Renderer())
    return time.process_time() - started_s


def _rules() -> tuple[Rule, ...]:
    read = read_policy(RULES.name, RULES.read_bytes())
    if read.findings:
        raise ValueError(read.findings)
    return read.rules


def _change(number: int) -> Change:
    path = f"apps/{number}.yaml"
    variant = Variant(
        key=ResourceKey(cluster="prod", namespace=f"ns-{number % 50}", kind="VariantAutoscaling", name=f"v-{number}"),
        model=ModelKey(cluster="prod", namespace="llm", model_id=f"org/model-{number}"),
        form=Form.TARGET,
        status_shape=StatusShape.NONE,
        document=DocumentRef(path=path, document=0),
        place=Place(path=path, line=1),
        workload=None,
        current=Allocation(accelerator="H100", replicas=3 + number % 5),
        accelerator_source="",
        settings=VariantSettings(),
        service_class=None,
        options=(),
        served_names=(),
        relative_cost=None,
        current_cost_per_hour=6.88,
        labels=MappingProxyType({"team": "chat"}),
    )
    return Change(
        subject=Subject(now_s=NOW_S, variant=variant, priority=number % 20),
        desired=Allocation(accelerator="H100", replicas=5),
        cost_before=20.0,
        cost_after=30.0,
        group_cost_before=100.0,
        group_cost_added=10.0,
        needed=5.0,
        carried_before=3.0,
        carried_after=7.0,
    )


if __name__ == "__main__":
    print(json.dumps(_time_plans(Path(sys.argv[1]), int(sys.argv[2]))))
