"""ConfigMap `llmaz-global-config`: the scheduler that llmaz gives its pods to."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from reconciler.domain.declared.llmaz import GlobalConfig
from reconciler.domain.identity import Severity, finding_of
from reconciler.errors import InputError
from reconciler.resources.kubernetes.embedded import parse_embedded
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import LooseShape, validate

GLOBAL_CONFIG_MAP = "llmaz-global-config"
_KEY = "config.data"


class _GlobalConfigFields(LooseShape):
    scheduler_name: Annotated[str | None, Field(alias="scheduler-name")] = None
    init_container_image: Annotated[str, Field(alias="init-container-image", min_length=1)]


def read_global_config(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    """The settings; what is wrong with them takes nothing from us but which scheduler is used."""
    if _KEY not in entries:
        yield source.complain(("data",), f"expected the key {_KEY}, found nothing", Severity.WARNING)
        return
    try:
        text = parse_embedded(source, _KEY, entries[_KEY], "one mapping in YAML")
    except InputError as error:
        yield finding_of(error)
        return
    validated = validate(_GlobalConfigFields, text.document.value, locate=text.locate)
    yield from validated.findings
    if validated.value is not None:
        yield GlobalConfig(
            cluster=source.cluster,
            place=source.locate(("data", _KEY)),
            scheduler_name=validated.value.scheduler_name or "",
        )
