"""A tree that is looked into on the way to some fields has the same nodes there as the whole tree."""

import pytest

from reconciler.manifests.edits import MappingNode, SequenceNode, YamlNode, build_tree, last_leaf, locate
from reconciler.manifests.wording import Field

TEXTS: dict[str, tuple[str, list[Field]]] = {
    "a document of a fleet": (
        "---\nspec:\n  replicas: 3  # now\n  pods:\n    - name: a\n    - name: c\nstatus:\n  - list: [1, {a: b}]\n",
        [("spec", "replicas"), ("spec", "pods", 1, "name"), ("status",)],
    ),
    "flow at the end of a block": ("a:\n  b:\n    - c: {d: [1, 2], e: f}\ng: {h: {}}\n", [("a",), ("g", "h")]),
    "a block scalar at the end": ("a:\n  b: |\n    text\n\n    more\n", [()]),
    "anchors, tags and aliases": ("a: &x !!map\n  b: 1\nc:\n  d: *x\n  e: &y [1]\n  f:\n    - *y\n", [("c",), ("a",)]),
    "keys with question marks": ("? a\n: ? b\n  : 1\n  ? c\n  : - 2\n", [()]),
    "empty values": ("a:\n  b:\n  c:\nd:\n", [("d",)]),
    "several documents": ("a:\n  b: 1\n---\na:\n  b:\n    - 2\n", [("a", "b")]),
    "merge keys": ("a: &x\n  b: 1\nc:\n  <<: *x\n  d:\n    e: 2\n", [("c", "d")]),
}


@pytest.mark.parametrize(("text", "fields"), TEXTS.values(), ids=TEXTS)
def test_nodes_on_the_way_are_those_of_the_whole_tree(text: str, fields: list[Field]) -> None:
    whole, partial = build_tree(text), build_tree(text, fields)
    assert len(whole.roots) == len(partial.roots)
    assert whole.used_anchors == partial.used_anchors
    compared = 0
    for root, ours in zip(whole.roots, partial.roots, strict=True):
        whole.used_anchors.clear()  # only where nodes are matters here, not whether they may be edited
        partial.used_anchors.clear()
        for field in fields:
            for depth in range(len(field) + 1):
                found, other = (locate(*each, field[:depth])[-1] for each in ((whole, root), (partial, ours)))
                compared += _compare_members(found, other)
    assert compared


def _compare_members(found: YamlNode, other: YamlNode) -> int:
    pairs = [(found, other)]
    if isinstance(found, MappingNode):
        assert isinstance(other, MappingNode)
        assert list(found.members) == list(other.members)
        assert found.merge_start == other.merge_start
        pairs += [(each.value, other.members[key].value) for key, each in found.members.items()]
        pairs += [(each.key, other.members[key].key) for key, each in found.members.items()]
    elif isinstance(found, SequenceNode):
        assert isinstance(other, SequenceNode)
        pairs += list(zip(found.items, other.items, strict=True))
    for one, two in pairs:
        assert _place(one) == _place(two)
        assert _place(last_leaf(one)) == _place(last_leaf(two))
    return len(pairs)


def _place(node: YamlNode) -> tuple[object, ...]:
    is_flow = isinstance(node, MappingNode | SequenceNode) and node.is_flow
    return type(node), node.start, node.end, node.column, node.anchor, node.has_tag, is_flow


def test_members_that_are_not_looked_into_are_not_there() -> None:
    (root,) = build_tree("a:\n  b: 1\nc:\n  d: 2\n", [("a", "b")]).roots
    assert isinstance(root, MappingNode)
    a, c = (root.members[key].value for key in "ac")
    assert isinstance(a, MappingNode)
    assert isinstance(c, MappingNode)
    assert (list(a.members), list(c.members)) == (["b"], [])
