"""Random changes of random fleets: a review says of each variant what a plan of the head does."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, Outcome, VerdictKind
from reconciler.domain.reports import AllocationRemark, Objection, Review
from reconciler.domain.settings import Settings
from reconciler.git.clone import Clone, clone_base
from reconciler.git.repository import create_bare, open_directory
from reconciler.pipeline.review import HeadReader, Reviewer, decide_base
from reconciler.pipeline.run import plan
from reconciler.pipeline.session import Doors
from reconciler.rendering.renderer import Renderer
from tests.bench.fleet import CLUSTER, NOW_S, Fleet
from tests.bench.manifests import repository_files
from tests.bench.observing import AUTHOR, FleetPrometheus, fleet_settings

FLEETS, CHANGES = 10, 20
CONFIGURATION = "reconciler.yaml"
Files = dict[str, bytes]
Change = Callable[[Files, random.Random], tuple[str, bytes]]


def in_manifests(pattern: str, *words: str) -> Change:
    """One place in one manifest, with other words."""

    def change(files: Files, draw: random.Random) -> tuple[str, bytes]:
        path = draw.choice(sorted(path for path, body in files.items() if re.search(pattern.encode(), body)) or [""])
        if not path:
            return CONFIGURATION, files[CONFIGURATION]
        found = draw.choice(list(re.finditer(pattern.encode(), files[path])))
        body = files[path]
        return path, body[: found.start()] + draw.choice(words).encode() + body[found.end() :]

    return change


def in_configuration(pattern: str, *words: str) -> Change:
    """The same in the configuration."""
    change = in_manifests(pattern, *words)
    return lambda files, draw: change({CONFIGURATION: files[CONFIGURATION]}, draw)


FACTS: tuple[Change, ...] = (
    in_manifests(r'nvidia.com/gpu: "1"', 'nvidia.com/gpu: "2"', 'nvidia.com/gpu: "8"'),
    in_manifests(r"--max-num-seqs=\d+", "--max-num-seqs=8", "--max-num-seqs=16", "--max-num-seqs=500"),
    in_manifests(r"--max-model-len=8192", "--max-model-len=131072", "--tensor-parallel-size=2"),
    in_manifests(r"vllm-openai:v0.11.0", "vllm-openai:v0.12.0"),
    in_manifests(r"minReplicas: 1", "minReplicas: 2", "minReplicas: 5"),
    in_manifests(r"maxReplicas: 60", "maxReplicas: 1", "maxReplicas: 2"),
    in_manifests(r"  modelID: \S+", "  modelID: org/another"),
    in_configuration(r"alpha: [\d.]+ms", "alpha: 3ms", "alpha: 15ms", "alpha: 45ms"),
    in_configuration(r"maxBatchSize: \d+", "maxBatchSize: 8", "maxBatchSize: 128"),
    in_configuration(r"costPerHour: [\d.]+", "costPerHour: 0.1", "costPerHour: 99"),
    in_configuration(r"itl: 60ms", "itl: 35ms", "itl: 25ms", "itl: 200ms"),
    in_configuration(r"ttft: 1s", "ttft: 200ms", "ttft: 9s"),
    in_configuration(r"headroom: 15%", "headroom: 90%", "headroom: 1%"),
    in_configuration(r"policies: \[default\]", "policies: [aggressive]", "policies: [conservative]"),
    in_manifests(r"version: 0.1.5", "version: 0.1.6", "version: 1.0.0"),
    in_manifests(r"  values: {gpus: 1", "  values: {gpus: 8"),
)
RELEASE = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  chart: {spec: {chart: vllm, version: 0.1.5, sourceRef: {kind: HelmRepository, name: x}}}
  values: {gpus: 1, auth: {password: x}}
---
"""
CHARTS = f"clusters/{CLUSTER}/flux-system/charts.yaml"


def fleet_files(fleet: Fleet) -> dict[str, bytes]:
    """The fleet with its rules named, and a chart behind every fourth variant."""
    files = repository_files(fleet)
    files[CONFIGURATION] += b"policies: [default]\n"
    charted = fleet.members[::4]
    named = (RELEASE.replace("NAMESPACE", each.namespace).replace("NAME", each.name) for each in charted)
    return files | {CHARTS: "".join(named).encode()}


class Stage:
    """A base and its reviewer; heads are committed on top of it."""

    def __init__(self, folder: Path, number: int) -> None:
        fleet = Fleet(size=12 + number)
        self.files = fleet_files(fleet)
        self._directory, self._prometheus = folder / "fleet.git", FleetPrometheus(fleet)
        create_bare(
            self._directory, branch="main", files=self.files, message="Add", author=AUTHOR, date_s=int(NOW_S) - 90_000
        )
        self._clone: Clone = clone_base(str(self._directory), base="main", credentials=None, directory=folder / "clone")
        self.settings = fleet_settings(self.files[CONFIGURATION])
        base = decide_base(self._doors("main"), self.settings, NOW_S, "fleet")
        self.reviewer = Reviewer(
            base=base,
            reader=HeadReader(
                base=open_directory(self._directory, base="main"),
                settings=self.settings,
                flags=Flags(),
                environment=Environment(),
                name="fleet",
            ),
        )

    def commit(self, number: int, files: Files) -> str:
        """A branch with these files on top of the base."""
        commit = self._clone.write_commit(
            parent=self._clone.commit, files=files, message="Change", author=AUTHOR, date_s=int(NOW_S) - 60
        )
        branch = f"change-{number}"
        self._clone.push(branch, commit, expected=None)
        return branch

    def review(self, branch: str) -> Review:
        """What merging it would do."""
        return self.reviewer.review(open_directory(self._directory, base=branch))

    def plan(self, branch: str, settings: Settings) -> dict[ResourceKey, Decision]:
        """What a plan of it decides by the rules of the base."""
        judged = replace(settings, rules=self.settings.rules)
        prepared = plan(self._doors(branch), judged, NOW_S, repository="fleet")
        return {each.variant: each for each in prepared.plan.decisions}

    def _doors(self, branch: str) -> Doors:
        repository = open_directory(self._directory, base=branch)
        return Doors(repository=repository, ask=self._prometheus.ask, forge=None, author=AUTHOR, renderer=Renderer())


def differences(
    review: Review, planned: dict[ResourceKey, Decision], base: dict[ResourceKey, Decision]
) -> Iterator[str]:
    """Where a review says something else than a plan of the head."""
    remarks: dict[ResourceKey, AllocationRemark] = {each.variant: each for each in review.allocations}
    for key, decision in planned.items():
        remark, before = remarks.get(key), base[key]
        if decision.hold is not None:
            if (
                before.hold is None
                and not (remark and remark.judged and remark.judged.hold)
                and not any(each.subject == key.label and each.objection is Objection.HOLD for each in review.others)
            ):
                yield f"{key}: held by a plan ({decision.hold.words}), not by the review"
        elif decision.desired.accelerator != decision.current.accelerator:
            continue  # nobody writes the number for another accelerator
        elif before.hold is None and decision.desired.replicas != before.desired.replicas:
            needed = remark.needed if remark is not None else None
            if needed != decision.desired.replicas:
                yield f"{key}: a plan gives {decision.desired.replicas}, the review says {needed}"
    cost = sum(each.cost_before_per_hour or 0.0 for each in planned.values())
    if review.totals.cost_after_per_hour != pytest.approx(cost, abs=1e-4):
        yield f"costs {cost}, the review says {review.totals.cost_after_per_hour}"


@pytest.mark.parametrize("number", range(FLEETS))
def test_a_review_says_what_a_plan_of_the_head_decides(tmp_path: Path, number: int) -> None:
    stage, draw = Stage(tmp_path, number), random.Random(number)  # noqa: S311 - the same changes in every run
    base, moved = dict(stage.reviewer.base.recommended), 0
    for change in range(CHANGES):
        files = dict(stage.files)
        changed: Files = {}
        for _ in range(draw.choice((1, 1, 2, 3))):
            path, body = draw.choice(FACTS)(files, draw)
            files[path] = changed[path] = body
        branch = stage.commit(change, changed)
        planned = stage.plan(branch, fleet_settings(files[CONFIGURATION]))
        review = stage.review(branch)
        found = list(differences(review, planned, base))
        assert not found, (found, sorted(changed))
        said = {words for each in review.others for words in (each.words, each.subject)}
        if CHARTS in changed:
            assert any("what its chart makes of that is not known" in words for words in said)
        if b"policies: [default]" not in files[CONFIGURATION]:
            assert any(each.startswith("rule ") for each in said)
        moved += any(key in base and each.desired != base[key].desired for key, each in planned.items())
    assert moved > CHANGES / 5


@pytest.mark.parametrize("number", range(FLEETS))
def test_what_a_plan_proposes_is_judged_as_the_plan_judged_it(tmp_path: Path, number: int) -> None:
    stage = Stage(tmp_path, number)
    changes = {
        key: each
        for key, each in stage.reviewer.base.recommended.items()
        if each.outcome is Outcome.CHANGE and each.desired.accelerator == each.current.accelerator
    }
    changed: Files = {}
    for key, each in changes.items():
        head = f"kind: Deployment\nmetadata:\n  name: {key.name}\n".encode()
        path = next(path for path, body in stage.files.items() if head in body)
        before, _, after = changed.get(path, stage.files[path]).partition(head)
        changed[path] = before + head + after.replace(b"replicas: 1", f"replicas: {each.desired.replicas}".encode(), 1)
    review = stage.review(stage.commit(0, changed))
    assert changes
    assert {each.variant for each in review.allocations} == changes.keys()
    for remark in review.allocations:
        decision = changes[remark.variant]
        assert remark.needed == decision.desired.replicas
        assert remark.objection in (Objection.NONE, Objection.APPROVAL), remark
        is_asked = decision.verdict.kind is VerdictKind.NEEDS_APPROVAL
        assert (decision.verdict.rule in remark.approvals) == (is_asked and bool(decision.verdict.rule)), remark
        assert remark.judged is not None
        assert remark.added_cost_per_hour == pytest.approx(
            (decision.cost_after_per_hour or 0.0) - (decision.cost_before_per_hour or 0.0)
        )
