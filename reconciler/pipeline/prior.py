"""Prior: reads a model's shape, profiles and prices from the base commit, and asks no Prometheus."""

from collections.abc import Sequence

from reconciler.domain.priors import Priors
from reconciler.domain.records import replace
from reconciler.domain.settings import Settings
from reconciler.pipeline.files import read_files
from reconciler.pipeline.session import Doors
from reconciler.snapshot.declarations import fold
from reconciler.snapshot.priors import find_priors
from reconciler.snapshot.variants import build_catalogs, join_variants

MOST_SHAPE_BYTES = 1_000_000


def find_model_priors(
    doors: Doors, settings: Settings, repository_name: str, model_id: str, accelerators: Sequence[str]
) -> Priors:
    """What a model would probably do on accelerators that it has no profile on."""
    repository = doors.repository
    files = read_files(repository, settings, repository_name, doors.progress)
    declaration = fold(files.commit, settings)
    catalogs = build_catalogs(settings, declaration)
    variants = join_variants(settings, declaration, catalogs)
    stated = next((each for each in settings.models if each.model_id == model_id), None)
    text = None
    if stated is not None and stated.shape_config:
        text = repository.read_file_at(repository.commit, stated.shape_config)
        text = text if text is None or len(text) <= MOST_SHAPE_BYTES else b""
    found = find_priors(model_id, accelerators, settings, catalogs, variants, text)
    return replace(found, findings=tuple(sorted({*found.findings, *declaration.findings, *files.unread})))
