"""How long rules take: 10,000 variants under 20 rules, five of them in CEL."""

import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reconciler.domain.declared.declarations import Form, StatusShape
from reconciler.domain.declared.places import DocumentRef
from reconciler.domain.identity import ModelKey, Place, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import VariantSettings
from reconciler.policy.judging import RuleBook
from reconciler.policy.reading.files import read_policy
from reconciler.policy.subjects import Change, Subject

CHANGES = 10_000
NOW_S = 1_800_000_000.0
RULES = Path(__file__).with_name("judging.yaml")


def measure() -> dict[str, Any]:
    """Seconds of processor time for the numbers that rules leave, and for the verdicts."""
    read = read_policy(RULES.name, RULES.read_bytes())
    if read.findings:
        raise ValueError(read.findings)
    book, changes = RuleBook(read.rules), [_change(number) for number in range(CHANGES)]
    book.judge(changes[0])  # compiled once a run
    started_s = time.process_time()
    limits = [book.limits(each.subject) for each in changes]
    limited_s = time.process_time()
    said = [book.judge(each) for each in changes]
    ended_s = time.process_time()
    return {
        "rules": len(read.rules),
        "changes": len(changes),
        "limits, s": round(limited_s - started_s, 3),
        "verdicts, s": round(ended_s - limited_s, 3),
        "limited": sum(each.most is not None for each in limits),
        "said": sum(map(len, said)),
    }


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
