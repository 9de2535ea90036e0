"""Comments that say whose a number is."""

import pytest

from reconciler.domain.identity import ResourceKey
from reconciler.placement.markers import read_markers
from reconciler.placement.places import EffectivePlace, NoPlace, effective_place
from tests.unit.placement.conftest import Build


def read(text: str) -> list[tuple[str, str]]:
    markers, findings = read_markers("values.yaml", text.encode())
    assert not findings
    return [(each.word, f"{each.place} {each.place.field} {each.kind}/{each.name} = {each.value}") for each in markers]


def test_a_marker_belongs_to_the_number_before_it_on_its_line() -> None:
    text = "a:\n  b: [{c: 1}, {c: 2}] # reconciler.io/max-replicas: HorizontalPodAutoscaler/x.y\n"
    assert read(text) == [("max-replicas", "values.yaml:2 a.b[1].c HorizontalPodAutoscaler/x.y = 2")]


def test_a_marker_needs_no_target_inside_the_own_manifest() -> None:
    assert read("num: '3'  #reconciler.io/replicas\r\n") == [("replicas", "values.yaml:1 num / = 3")]


def test_ignore_may_stand_behind_any_value() -> None:
    assert read("---\nx: 1\n---\nnum: ${N} # reconciler.io/ignore\n") == [("ignore", "values.yaml:4 num / = ${N}")]


def test_what_only_looks_like_a_comment_is_text() -> None:
    assert read('a: "1 # reconciler.io/replicas: Deployment/x"\nb: |\n  1 # reconciler.io/replicas\n') == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# reconciler.io/replicas: Deployment/x\na: 1\n", "expected a number before"),
        ("a: ten # reconciler.io/replicas\n", 'got "ten"'),
        ("a: -1 # reconciler.io/replicas\n", "got -1"),
        ("a: 1 # reconciler.io/replicas: x\n", 'KIND/NAME, got "x"'),
        ("a: 1 # reconciler.io/replicas Deployment/x\n", "KIND/NAME"),
        ("a: 1 # reconciler.io/replica: Deployment/x\n", 'got "reconciler.io/replica"'),
    ],
)
def test_a_wrong_marker_is_an_error_at_its_line(text: str, message: str) -> None:
    markers, (finding,) = read_markers("values.yaml", text.encode())
    assert not markers
    assert finding.place.line == 1
    assert message in finding.message


@pytest.mark.parametrize(
    "body", [b"\xff # reconciler.io/replicas", b"a: [ # reconciler.io/ignore\n", b"{{ x }} # reconciler.io/ignore"]
)
def test_a_file_that_is_no_yaml_has_none(body: bytes) -> None:
    assert read_markers("values.yaml", body)[0] == ()


OBJECT = """\
apiVersion: workload.serving.volcano.sh/v1alpha1
kind: ModelServing
metadata: {name: qwen, namespace: llm}
spec:
  roles:
    - {name: prefill, replicas: 1}  # reconciler.io/replicas
    - name: decode
      replicas: 2  # reconciler.io/replicas
"""
QWEN = ResourceKey(cluster="prod", namespace="llm", kind="ModelServing", name="qwen")


def test_of_several_markers_in_one_manifest_each_speaks_of_its_own_number(build: Build) -> None:
    fleet = build({"qwen.yaml": OBJECT})
    found = [effective_place(fleet, QWEN, ("spec", "roles", index, "replicas")) for index in range(2)]
    assert [each.place.line for each in found if isinstance(each, EffectivePlace)] == [6, 8]


def test_a_number_with_an_ignore_comment_is_left_alone(build: Build) -> None:
    fleet = build({"qwen.yaml": OBJECT.replace("# reconciler.io/replicas", "# reconciler.io/ignore")})
    found = effective_place(fleet, QWEN, ("spec", "roles", 1, "replicas"))
    assert isinstance(found, NoPlace)
    assert found.obstacle.reason.startswith("ignored")


def test_a_marker_does_not_choose_between_namespaces(build: Build) -> None:
    values = "n: 3 # reconciler.io/replicas: ModelServing/qwen\n"
    twins = {"a.yaml": OBJECT, "b.yaml": OBJECT.replace("llm", "other"), "values.yaml": values}
    plain = {path: text.replace("# reconciler.io/replicas\n", "\n") for path, text in twins.items()}
    found = effective_place(build(plain), QWEN)
    assert isinstance(found, NoPlace)
    assert "several namespaces: llm/qwen and other/qwen" in found.obstacle.reason


def test_a_marker_in_a_file_of_two_clusters_is_no_place(build: Build) -> None:
    values = {"shared/values.yaml": "n: 3 # reconciler.io/replicas: Deployment/x\n"}
    fleet = build(values, {"east": ["east/**"], "west": ["west/**"]})
    found = effective_place(fleet, ResourceKey(cluster="east", namespace="llm", kind="Deployment", name="x"))
    assert isinstance(found, NoPlace)
    assert "used by east and west" in found.obstacle.reason
