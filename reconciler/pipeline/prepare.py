"""From a recording to a plan and the bytes that it would write, without network or repository."""

import logging

from reconciler.domain.plan import Plan
from reconciler.domain.proposals import Edited
from reconciler.domain.recording import Recording
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.pipeline.draft import draft_plan
from reconciler.pipeline.process import paused_collector, return_memory
from reconciler.pipeline.recording import fingerprint
from reconciler.rendering.renderer import Renderer
from reconciler.resources.declaration import Declaration
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.declarations import read_declaration

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a recording leads to, up to the bytes that would be written."""

    recording: Recording
    snapshot: Snapshot
    plan: Plan
    edited: Edited


@paused_collector()
def prepare(
    recording: Recording,
    renderer: Renderer,
    declaration: Declaration | None = None,
    variants: tuple[Variant, ...] | None = None,
) -> Prepared:
    """Decide and draft from a recording; `declaration` and its `variants` spare reading its manifests again."""
    if declaration is None:
        declaration = read_declaration(
            recording.manifests, recording.withheld, recording.settings, recording.paths, recording.repository
        )
    snapshot = read_snapshot(recording, declaration, "", declared=variants)
    del declaration  # the plan takes the memory of what the snapshot does not hold
    return_memory()
    snapshot = replace(snapshot, fingerprint=fingerprint(recording))  # last: by now answers know what they hold
    snapshot, decided, edited = draft_plan(snapshot, recording, renderer)
    logger.info(
        "decided %d variants: %s",
        len(decided.decisions),
        ", ".join(f"{number} {word}" for word, number in decided.tally.items()),
    )
    return Prepared(recording=recording, snapshot=snapshot, plan=decided, edited=edited)
