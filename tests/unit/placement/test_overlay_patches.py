"""How a patch of ours leads to a field, and when it would replace a list."""

from collections.abc import Callable

import pytest

from reconciler.placement.fleet import Fleet
from reconciler.placement.places import NoPatchError, way_through

Build = Callable[..., Fleet]
OBJECT = """\
apiVersion: {version}
kind: {kind}
metadata: {{name: llama}}
spec:
  template:
    spec:
      containers: [{{name: a}}, {{name: b}}]
      volumes: [{{emptyDir: {{}}}}]
      hostAliases: [{{ip: 10.0.0.1, name: a}}]
"""
POD = ("spec", "template", "spec")


@pytest.mark.parametrize(
    ("version", "kind", "path", "way"),
    [
        ("apps/v1", "Deployment", (*POD, "nodeSelector"), (*POD, "nodeSelector")),
        ("apps/v1", "Deployment", (*POD, "containers", 0, "image"), (*POD, "containers", ("a",), "image")),
        ("apps/v1", "Deployment", (*POD, "containers", 1, "image"), (*POD, "containers", ("a", "b"), "image")),
        ("apps/v1", "Deployment", (*POD, "volumes", 0), None),
        ("apps/v1", "Deployment", (*POD, "hostAliases", 0), None),
        ("example.com/v1", "Deployment", (*POD, "containers", 0, "image"), None),
        ("apps/v1", "Rollout", (*POD, "containers", 0, "image"), None),
    ],
)
def test_a_patch_leads_through_lists_that_merge_by_name(
    build: Build, version: str, kind: str, path: tuple[str | int, ...], way: object
) -> None:
    (built,) = build({"a.yaml": OBJECT.format(version=version, kind=kind)}).clusters["prod"].objects
    if way is None:
        with pytest.raises(NoPatchError, match="would replace the whole list"):
            way_through(built, path)
    else:
        assert way_through(built, path) == way
