"""InferencePools as their resource definitions take and refuse them."""

from collections.abc import Callable

import pytest

from reconciler.resources.declaration import Declaration
from reconciler.resources.inference.gateway import InferencePool

Load = Callable[[str], Declaration]
Write = Callable[..., str]
Told = Callable[[str], list[str]]

BASE = (
    "{selector: {matchLabels: {app: vllm}}, targetPorts: [{number: 8000}], "
    "endpointPickerRef: {name: epp, kind: Service, port: {number: 9002}}}"
)
FLAT = "{selector: {app: vllm}, targetPortNumber: 8000, extensionRef: {name: epp}}"
OLDER = "inference.networking.x-k8s.io/v1alpha2"


def pool_of(declaration: Declaration) -> InferencePool:
    assert [str(finding) for finding in declaration.findings] == []
    (pool,) = declaration.inference.pools
    return pool


def test_a_pool_is_carried_over_field_by_field(load: Load, write: Write) -> None:
    spec = BASE.replace("port: {number: 9002}", "group: '', failureMode: FailOpen, port: {number: 9002}")
    spec = spec.replace("endpointPickerRef", "appProtocol: kubernetes.io/h2c, endpointPickerRef")
    pool = pool_of(load(write("InferencePool", spec, annotations='{inference.networking.x-k8s.io/export: "x"}')))
    assert (pool.group, pool.key.label) == ("inference.networking.k8s.io", "llm/chat")
    assert pool.selector == {"app": "vllm"}


@pytest.mark.parametrize("version", [OLDER, "inference.networking.x-k8s.io/v1alpha1"])
def test_a_pool_of_the_experimental_group_has_a_flat_selector(load: Load, write: Write, version: str) -> None:
    pool = pool_of(load(write("InferencePool", FLAT, version=version)))
    assert (pool.group, pool.selector) == ("inference.networking.x-k8s.io", {"app": "vllm"})


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("", ""),
        ("endpointPickerRef", "appProtocol: kubernetes.io/h2c, endpointPickerRef"),
        ("[{number: 8000}]", "[{number: 8000}, {number: 80}, {number: 8081}, {number: 443}]"),
        (", endpointPickerRef: {name: epp, kind: Service, port: {number: 9002}}", ""),
        ("kind: Service, port: {number: 9002}", "kind: Picker, group: foo.example.com"),
        ("kind: Service", "failureMode: FailOpen"),
        ("kind: Service", "group: gateway.networking.k8s.io"),
    ],
)
def test_a_pool_that_is_taken(load: Load, write: Write, was: str, becomes: str) -> None:
    pool_of(load(write("InferencePool", BASE.replace(was, becomes) if was else BASE)))


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ("kind: Service, port: {number: 9002}", "", "port is required when the kind is Service or not written"),
        (", port: {number: 9002}", "", "port is required when the kind is Service or not written"),
        ("[{number: 8000}]", "[{number: 8000}, {number: 8000}]", "port number must be unique, 8000 is already"),
        ("[{number: 8000}]", "[]", "spec.targetPorts: expected at least one item, got an empty list"),
        ("number: 8000", "number: 65536", "expected at most 65535, got 65536"),
        ("number: 8000", "number: http", 'expected an integer, got "http"'),
        ("{app: vllm}", "{}", "selector.matchLabels: expected at least one item, got an empty mapping"),
        ("{app: vllm}", "{app: 'a b'}", 'expected a label\'s value, got "a b"'),
        ("kind: Service", "kind: invalid/kind", 'expected a kind like InferencePool, got "invalid/kind"'),
        ("kind: Service", "group: example.com/bar", "expected a group like gateway.networking.k8s.io, got"),
        ("kind: Service", "failureMode: Fail", 'expected "FailClose" or "FailOpen", got "Fail"'),
        ("selector:", "app:", "spec.selector: expected a mapping, found nothing"),
        ("{matchLabels: {app: vllm}}", "{app: vllm}", "spec.selector.matchLabels: expected a mapping, found nothing"),
    ],
)
def test_a_pool_that_is_refused(load: Load, write: Write, told: Told, was: str, becomes: str, message: str) -> None:
    text = write("InferencePool", BASE.replace(was, becomes).replace(", ,", ",").replace(", }", "}"))
    (line,) = [each for each in told(text) if " error: " in each]
    assert line.startswith("4: error: spec.")
    assert message in line
    assert not load(text).inference.pools


def test_a_label_key_may_have_a_prefix(load: Load, write: Write) -> None:
    pool = pool_of(load(write("InferencePool", BASE.replace("app: vllm", "example.com/x: vllm"))))
    assert pool.selector == {"example.com/x": "vllm"}


def test_pools_of_one_name_in_two_groups_are_two_pools(load: Load, write: Write) -> None:
    text = write("InferencePool", BASE) + write("InferencePool", FLAT, version=OLDER)
    assert len(load(text).inference.pools) == 2
    twice = load(write("InferencePool", BASE) + write("InferencePool", BASE))
    assert not twice.inference.pools
    assert len(twice.findings) == 2


def test_another_group_or_version_is_an_error(told: Told, write: Write) -> None:
    (line,) = told(write("InferencePool", BASE, version="inference.networking.k8s.io/v1beta1"))
    assert line.startswith(
        '1: error: apiVersion: expected "inference.networking.k8s.io/v1", "inference.networking.x-k8s'
    )


def test_pools_of_other_clusters_only_report(load: Load) -> None:
    text = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: a}\n"
    assert load(text) == load("{}")
