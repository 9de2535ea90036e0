"""The pull requests of the sample repositories: one replica more of everything, or as many on another accelerator."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.decision.questions import ask_by_cluster
from reconciler.domain.answers import Answer
from reconciler.domain.proposals import Draft
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Variant
from reconciler.metrics.queries import queries_for
from reconciler.metrics.readings import target_of
from reconciler.pipeline.draft import Style, draft_plan, write_texts
from reconciler.rendering.renderer import Renderer
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.variants import declared_variants
from tests.servers.answers import Replica, answering
from tests.tools.sample_clusters import declare_targets, what_is_said
from tests.tools.sample_moves import declare_moves, declare_planned

NOW_S = 1_790_000_000.0
COMMIT, FINGERPRINT = "3f9c2ab" + "0" * 33, "9b1e07" + "0" * 58
BODY_LIMIT = 58_000
PER_REPLICA_PER_S = 29.8
"""What one replica takes under the samples' profile and class, less the headroom of 20 %."""
OF_A_REPLICA = 0.6
"""How much of the last replica the load takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The files that the pull requests change, and their texts."""

    files: Mapping[str, bytes]
    text: str


def propose(case: str, files: Mapping[str, bytes]) -> Proposed:
    """What is proposed under a load that takes one replica more of each scale target."""
    settings, declaration = declare_targets(what_is_said(case), files)
    return _draft(files, settings, declaration, more=1)


def propose_move(case: str, files: Mapping[str, bytes]) -> Proposed:
    """What is proposed where all that may move must, under a load that takes as many replicas as there are."""
    settings, declaration = declare_moves(case, files)
    return _draft(files, settings, declaration, more=0)


def propose_planned(case: str, files: Mapping[str, bytes]) -> Proposed:
    """What is proposed where everything keeps its accelerator, under the same load."""
    settings, declaration = declare_planned(case, files)
    return _draft(files, settings, declaration, more=0)


def _draft(files: Mapping[str, bytes], settings: Settings, declaration: Declaration, *, more: int) -> Proposed:
    """Plan and draft as a run does, from what Prometheus would answer."""
    recording = Recording(
        now_s=NOW_S,
        repository="fleet",
        branch="main",
        commit=COMMIT,
        settings=settings,
        manifests=tuple(ManifestFile(path=path, body=body) for path, body in files.items()),
        withheld=(),
        unread=(),
        answers=tuple(_answers(settings, declaration, more)),
        proposals=(),
        paths=tuple(files),
    )
    renderer = Renderer()
    snapshot = read_snapshot(recording, declaration, FINGERPRINT)
    _, plan, edited = draft_plan(snapshot, recording, renderer)
    drafts = write_texts(plan, edited, renderer, Style(body_limit=BODY_LIMIT))
    return Proposed(
        files={path: body for each in edited.change_sets for path, body in each.files.items()},
        text="\n".join(map(_show, drafts)),
    )


def _answers(settings: Settings, declaration: Declaration, more: int) -> Iterator[Answer]:
    variants = declared_variants(settings, declaration)
    asked = ask_by_cluster(variants, declaration)
    for cluster in settings.clusters:
        own = [each for each in variants if each.key.cluster == cluster.name]
        replicas = [replica for each in own for replica in _replicas(each, more)]
        if cluster.name in asked:
            asking = asked[cluster.name]
            yield from answering(*replicas)(cluster, queries_for(cluster, asking.loads, NOW_S, needs=asking.needs))


def _replicas(variant: Variant, more: int) -> Iterator[Replica]:
    number = max(variant.current.replicas, 1)
    per_s = PER_REPLICA_PER_S * (number - 1 + more + OF_A_REPLICA) / number
    namespace, kind, name = target_of(variant)
    for index in range(number):
        pod = f"-5d4c8b7f9-bcdf{'ghjklmnpqrst'[index]}" if kind == "Deployment" else f"-{index}"
        yield Replica(namespace=namespace, pod=f"{name}{pod}", model=variant.served_names[0], per_s=per_s)


def _show(draft: Draft) -> str:
    message = "\n".join(f"  {line}".rstrip() for line in draft.commit_message.splitlines())
    head = f"head: {draft.change_set.head_branch}\ntitle: {draft.title}\ncommit: |\n{message}"
    return f"---\n{head}\n---\n\n{draft.body}"
