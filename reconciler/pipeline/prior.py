"""Prior: reads a model's shape, profiles and prices from the base commit, and asks no Prometheus."""

from collections.abc import Sequence
from functools import partial

from reconciler.domain.identity import Severity
from reconciler.domain.priors import Priors
from reconciler.domain.records import replace
from reconciler.domain.settings import Settings
from reconciler.pipeline.files import read_files, read_small
from reconciler.pipeline.session import Doors
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.priors import find_priors, with_hub_shapes, with_shapes
from reconciler.snapshot.variants import build_catalogs, join_variants


def find_model_priors(
    doors: Doors, settings: Settings, repository_name: str, model_id: str, accelerators: Sequence[str]
) -> Priors:
    """What a model would probably do on accelerators that it has no profile on."""
    files = read_files(doors.repository, settings, repository_name, doors.progress)
    settings, wrong = with_shapes(settings, partial(read_small, doors.repository))
    declaration = fold(files.commit, settings)
    settings = with_hub_shapes(settings, declaration.llmaz.models)
    catalogs = build_catalogs(settings, declaration)
    variants = join_variants(settings, declaration, catalogs)
    found = find_priors(model_id, accelerators, settings, catalogs, variants)
    errors = {replace(each, severity=Severity.ERROR) for each in wrong}  # nothing can be said without a shape
    return replace(found, findings=tuple(sorted({*declaration.findings, *files.unread, *errors})))
