"""What doctor says of autoscalers: what each that is tuned goes by, and which could be."""

from collections.abc import Iterator

import pytest

from reconciler.domain.records import replace
from reconciler.domain.reports import Check
from reconciler.domain.settings import ClusterSettings, Override, PrometheusSettings, Setting, Settings
from reconciler.domain.snapshot import Snapshot
from reconciler.manifests.documents import parse_documents
from reconciler.pipeline.doctor_workloads import AUTOSCALERS, check_workloads
from reconciler.rendering.renderer import Renderer
from reconciler.resources.declaration import merge
from reconciler.resources.reading import read_file
from reconciler.snapshot.variants import declared_variants

TEXT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: phi, namespace: llm}
spec:
  template: {spec: {containers: [{name: e, image: vllm/vllm-openai, args: [--model, phi]}]}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: phi, namespace: llm}
spec:
  scaleTargetRef: {name: phi}
  minReplicaCount: 1
  maxReplicaCount: 8
  triggers:
  - {type: prometheus, metadata: {query: "sum(rate(vllm:request_success_total[2m]))", threshold: "5"}}
"""


def checks(when: str, text: str = TEXT, *, merges: bool = False) -> Iterator[str]:
    settings = Settings(
        clusters=(ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://p")),),
        workloads=(Override(match={"namespace": "*"}),),
        defaults={"whenAutoscaled": Setting(value=when)},
    )
    settings = replace(settings, pull_requests=replace(settings.pull_requests, auto_merge=merges))
    declaration = merge([read_file("prod", "a.yaml", parse_documents("a.yaml", text.encode()))])
    variants = declared_variants(settings, declaration)
    snapshot = Snapshot(
        now_s=0.0,
        repository="r",
        branch="main",
        commit="c",
        fingerprint="f",
        settings=settings,
        variants=variants,
    )
    found: Iterator[Check] = check_workloads(snapshot, ["prod"], Renderer())
    return (each.words for each in found if each.rule == AUTOSCALERS)


def test_what_a_tuned_autoscaler_goes_by_is_named() -> None:
    assert list(checks("tune")) == ["llm/phi: its autoscaler goes by arrival rate, by its own query"]


def test_of_one_whose_bounds_alone_move_the_reason_is_named() -> None:
    text = TEXT.replace("type: prometheus", "type: cron")
    (words,) = checks("tune", text)
    assert words.endswith("it scales by trigger cron, which is no metric of Prometheus")


@pytest.mark.parametrize(("merges", "offered"), [(False, 1), (True, 0)])
def test_tuning_is_offered_where_a_person_merges(merges: bool, offered: int) -> None:
    assert len(list(checks("bounds", merges=merges))) == offered
