"""A change of one variant as edits of its files: existing scalars in place, missing ones rendered and inserted."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.domain.inventory import Accelerator
from reconciler.domain.places import WrittenField
from reconciler.domain.plan import Decision, Outcome
from reconciler.domain.snapshot import Variant
from reconciler.pipeline.drafting.accelerator_edits import AcceleratorChange
from reconciler.pipeline.drafting.open_documents import FileEdit, OpenSheet, Sheet, set_field
from reconciler.rendering.renderer import Renderer
from reconciler.report.entries import ReplicaEntryView
from reconciler.report.status import StatusOmission, is_news, status_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """Writes the edits of one variant's change; raises EditRefused with what is in the way."""

    renderer: Renderer

    def count_edits(self, decision: Decision, variant: Variant, open_sheet: OpenSheet) -> Iterator[FileEdit]:
        """The edits of another number of replicas."""
        workload = variant.workload
        if workload is not None and decision.desired.replicas != decision.current.replicas:
            for written in workload.written_at:
                yield from self._count(written, decision.desired.replicas, open_sheet)

    def move_edits(
        self, decision: Decision, variant: Variant, accelerator: Accelerator | None, open_sheet: OpenSheet
    ) -> Iterator[FileEdit]:
        """The edits of another accelerator."""
        workload = variant.workload
        if workload is not None and decision.is_accelerator_change:
            change = AcceleratorChange(
                renderer=self.renderer, open_sheet=open_sheet, variant=variant, workload=workload
            )
            yield from change.edits(decision, accelerator)

    def status_edit(self, decision: Decision, variant: Variant, resource: Sheet, now_s: float) -> FileEdit | str | None:
        """The edit of the resource's status block, or why there is none; None where there is nothing new to say."""
        written = resource.find("status")
        view = status_view(decision, now_s=now_s, previous=variant.conditions, written=written)
        if isinstance(view, StatusOmission):
            return view.reason
        is_change = decision.outcome is Outcome.CHANGE
        if not is_change and not is_news(view, decision, previous=variant.conditions, written=written):
            return None
        text = self.renderer.render(view.template, view)
        if written is None:
            return resource.insert(text, "status")
        return resource.replace(text, "status")

    def _count(self, written: WrittenField, replicas: int, open_sheet: OpenSheet) -> Iterator[FileEdit]:
        """The number where it is written; a ceiling above it stays, one that stands nowhere is written to be raised."""
        if not written.takes(replicas):
            return
        if written.entry:
            view = ReplicaEntryView(name=written.entry, count=replicas)
            text = self.renderer.render("manifests/kustomize-replicas.yaml.j2", view)
            sheet = open_sheet(written.document)
            listed = sheet.find(*written.field)
            number = len(listed) if isinstance(listed, list) else 0
            add = sheet.append(text, number, *written.field, in_line=True) if number else None
            yield add or sheet.insert(text, *written.field)
        elif written.embedding is None and open_sheet(written.document).find(*written.field) is None:
            yield open_sheet(written.document).insert(str(replicas), *written.field)
        else:
            yield set_field(written, replicas, open_sheet)
