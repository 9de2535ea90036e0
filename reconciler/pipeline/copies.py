"""The manifest of a canary: what it has of the original and what is its own, and how it is written."""

from collections.abc import Iterator, Mapping
from typing import Final

import yaml

from reconciler.domain.canaries import CANARY_LABEL, Copy
from reconciler.domain.inventory import ACCELERATOR_LABEL, PRODUCT_KEYS
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import MANAGED, MIN_REPLICAS, MODEL
from reconciler.errors import InputError
from reconciler.manifests.documents import MAX_FILE_BYTES, Value, mapping_of, parse_documents
from reconciler.manifests.editing import find_difference
from reconciler.manifests.wording import format_field
from reconciler.metrics.quantities import POD_LABEL_OF_VARIANT
from reconciler.metrics.queries import exported_label
from reconciler.rendering.renderer import Renderer, double_quoted, is_plain_text
from reconciler.report.status import CopyView
from reconciler.resources.annotations import PREFIX

_NOTES_OF_THE_FIRST: Final = (
    # What kubectl, the Deployment's controller, Helm and Argo CD note of one object. By these a copy would be taken for
    # the first, for a part of its release, or for one that somebody else applies. Argo CD notes the same of the copy.
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/",
    "meta.helm.sh/",
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/installation-id",
    "kustomize.toolkit.fluxcd.io/checksum",
    # These keep an object although its file is gone, or as it was once created. A canary ends with its file, and by a
    # change of it; what must not be pruned is the first. `helm.sh/hook` is refused where copies are planned.
    "helm.sh/",
    "kustomize.toolkit.fluxcd.io/prune",
    "kustomize.toolkit.fluxcd.io/ssa",
    # The original's settings: a copy has its own.
    PREFIX,
)
"""Beginnings of the annotations that a copy does not get. All others say how such an object is applied, as sync waves
and `kustomize.toolkit.fluxcd.io/substitute` do, or are the team's own."""
_SYNC_OPTIONS: Final = "argocd.argoproj.io/sync-options"
_KEEPING: Final = ("Prune=", "Delete=")
_OWNERS: Final = (
    # Who applied the first. `app.kubernetes.io/instance` stays: teams select by it, and an Argo CD that tracks by it
    # writes it itself on all that it applies.
    "argocd.argoproj.io/instance",
    "helm.sh/",
    "helm.toolkit.fluxcd.io/",
    "kustomize.toolkit.fluxcd.io/",
    # The copy's node selector says another one.
    ACCELERATOR_LABEL,
)
"""Beginnings of the labels that a copy does not get."""
_MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "Helm")


def copy_of(value: Mapping[str, Value], variant: Variant, copied: Copy, tries: str, replicas: int) -> dict[str, Value]:
    """The fields of a Deployment or Playground as those of a canary.

    Of its metadata only namespace, labels and annotations are copied: all else is the cluster's (uid, generation,
    managed fields), or somebody's hold on the first (owners, who would have the copy collected with it, and finalizers,
    which only who set them takes away). Of our annotations it has its own.
    """
    spec, metadata, name = mapping_of(value.get("spec")), mapping_of(value.get("metadata")), variant.key.name
    adopted: dict[str, Value] = {
        PREFIX + MANAGED.annotation: "true",
        PREFIX + MODEL.annotation: variant.model.model_id,
    }
    annotations: dict[str, Value] = {
        **dict(_notes(mapping_of(metadata.get("annotations")))),
        CANARY_LABEL: tries,
        **({} if copied.flavor else adopted),
        PREFIX + MIN_REPLICAS.annotation: "0",
        **{PREFIX + key: each for key, each in copied.annotations.items()},
    }
    labels = {
        key: each
        for key, each in _renamed(mapping_of(metadata.get("labels")), name).items()
        if not key.startswith(_OWNERS) and (key, each) != _MANAGED_BY
    }
    own = _claiming(spec, copied) if copied.flavor else _placed(spec, name, copied)
    return {
        **{key: value[key] for key in ("apiVersion", "kind") if key in value},
        "metadata": {
            "name": name,
            **{key: metadata[key] for key in ("namespace",) if key in metadata},
            **({"labels": labels} if labels else {}),
            "annotations": annotations,
        },
        "spec": {**own, "replicas": replicas},
    }


def _notes(annotations: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    for key, each in annotations.items():
        if key == _SYNC_OPTIONS and isinstance(each, str):
            options = [option.strip() for option in each.split(",")]
            kept = ",".join(option for option in options if not option.startswith(_KEEPING))
            if kept:
                yield key, kept
        elif not key.startswith(_NOTES_OF_THE_FIRST):
            yield key, each


def _renamed(labels: Mapping[str, Value], name: str) -> dict[str, Value]:
    """The labels, where one that names a variant in metrics names the canary."""
    return {key: name if exported_label(key) == POD_LABEL_OF_VARIANT else each for key, each in labels.items()}


def _claiming(spec: Mapping[str, Value], copied: Copy) -> dict[str, Value]:
    """A Playground's spec with one flavor, and without an autoscaler."""
    _, claim, names = copied.flavors_field
    kept = {key: each for key, each in spec.items() if key != "elasticConfig"}
    return {**kept, claim: {**mapping_of(spec.get(claim)), names: [copied.flavor]}}


def _placed(spec: Mapping[str, Value], name: str, copied: Copy) -> dict[str, Value]:
    """A Deployment's spec on other nodes, with a selector of its own.

    All labels of its pods stay, so that what selects them selects the canary, but those that name a variant or an
    accelerator. The selector is the canary's own label alone: no other pod has it, whatever the original selects by.
    The original may select the canary's pods, too; Kubernetes tells them apart by their owners, and a Service that
    selects by the same labels is to send the canary its share.
    """
    own: dict[str, Value] = {CANARY_LABEL: name}
    template = mapping_of(spec.get("template"))
    pod, pods = mapping_of(template.get("spec")), mapping_of(template.get("metadata"))
    labels = _renamed(mapping_of(pods.get("labels")), name)
    labels.pop(ACCELERATOR_LABEL, None)
    placed = {key: each for key, each in mapping_of(pod.get("nodeSelector")).items() if key not in PRODUCT_KEYS}
    # A pod with a node's name is not scheduled: no node selector would count.
    unbound = {key: each for key, each in pod.items() if key != "nodeName"}
    return {
        **spec,
        "selector": {"matchLabels": own},
        "template": {
            **template,
            "metadata": {**pods, "labels": {**labels, **own}},
            "spec": {**unbound, "nodeSelector": {**placed, **copied.node_selector}},
        },
    }


def write_copy(renderer: Renderer, view: CopyView, path: str, value: Value) -> str:
    """The text of a new file with one document; InputError where reading it would not give exactly this value."""
    # A text that aliases repeat is written as often: that is counted before it is made.
    if _length(value) > MAX_FILE_BYTES:
        raise InputError(path, 0, "", f"a copy would be longer than {MAX_FILE_BYTES} bytes")
    body = yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=float("inf"))
    text = renderer.render("manifests/canary.yaml.j2", view) + body
    found: Value = [document.value for document in parse_documents(path, text.encode())]
    difference = find_difference([value], found)
    if difference is not None:
        where = format_field(difference[1:]) or "the root"
        raise InputError(path, 0, where, "a copy of it would be read differently: copy it by hand")
    return text


def _length(value: Value) -> int:
    """At least so many characters it takes."""
    waiting, length = [value], 0
    while waiting and length <= MAX_FILE_BYTES:
        each = waiting.pop()
        if isinstance(each, dict):
            length += sum(map(len, each))
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str):
            length += len(each)
    return length


class _Writer(yaml.SafeDumper):
    """Writes texts so that no reader takes them for anything else, and each value where it belongs."""

    def ignore_aliases(self, data: object) -> bool:
        """An alias in the original is its value in the copy."""
        del data
        return True

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        """With our escapes: PyYAML leaves characters that nobody sees."""
        del split
        self.write_indicator(double_quoted(text), need_whitespace=True)


def _write_text(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if is_plain_text(text) else "|" if _is_literal(text) else '"'
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_literal(text: str) -> bool:
    """Whether it is clear as a block of lines: nothing hidden in them, nor at their ends."""
    first, *rest = lines = text.removesuffix("\n").split("\n")
    are_clear = all(line.isprintable() and line == line.rstrip() for line in lines)
    return bool(rest) and bool(first) and first[0] != " " and bool(rest[-1]) and are_clear


_Writer.add_representer(str, _write_text)
