"""InferenceObjectives, InferenceModels and InferenceModelRewrites as their definitions take and refuse them."""

from collections.abc import Callable

import pytest

from reconciler.domain.identity import Place
from reconciler.resources.declaration import Declaration
from reconciler.resources.inference.gateway import InferenceObjective

Load = Callable[[str], Declaration]
Write = Callable[..., str]
Told = Callable[[str], list[str]]

POOL = "{selector: {matchLabels: {app: vllm}}, targetPorts: [{number: 8000}]}"
OLDER_POOL = "{selector: {app: vllm}, targetPortNumber: 8000}"
EXPERIMENTAL, ROUTER = "inference.networking.x-k8s.io/v1alpha2", "llm-d.ai/v1alpha2"


@pytest.fixture
def objective_of(load: Load, write: Write) -> Callable[..., InferenceObjective]:
    """The objective of a spec beside its pool, of which nothing must be said."""

    def _objective_of(spec: str, version: str = EXPERIMENTAL) -> InferenceObjective:
        declaration = load(write("InferencePool", POOL) + write("InferenceObjective", spec, "high", version))
        assert [str(finding) for finding in declaration.findings] == []
        (objective,) = declaration.inference.objectives
        return objective

    return _objective_of


@pytest.mark.parametrize("version", [EXPERIMENTAL, ROUTER])
def test_an_objective_is_carried_over_field_by_field(
    objective_of: Callable[..., InferenceObjective], version: str
) -> None:
    objective = objective_of(
        "{priority: -10, poolRef: {group: inference.networking.k8s.io, kind: InferencePool, name: chat}}", version
    )
    assert (objective.key.label, objective.group) == ("llm/high", version.removesuffix("/v1alpha2"))
    assert objective.priority == -10
    assert objective.place_of("priority") == Place(path="a.yaml", line=9, field="spec.priority")
    assert (objective.spec.pool_ref.name, objective.spec.pool_ref.kind) == ("chat", "InferencePool")
    assert objective.spec.pool_ref.group == "inference.networking.k8s.io"


def test_what_is_not_written_counts_as_zero_and_the_pools_own_group(
    objective_of: Callable[..., InferenceObjective],
) -> None:
    objective = objective_of("{poolRef: {name: chat}}")
    assert (objective.priority, objective.spec.priority) == (0, None)
    assert (objective.spec.pool_ref.group, objective.spec.pool_ref.kind) == (
        "inference.networking.k8s.io",
        "InferencePool",
    )


def test_the_status_is_never_asked(load: Load, write: Write) -> None:
    condition = (
        '{type: Ready, status: Unknown, reason: Pending, message: w, lastTransitionTime: "1970-01-01T00:00:00Z"}'
    )
    text = write("InferencePool", POOL) + write("InferenceObjective", "{priority: 2, poolRef: {name: chat}}", "high")
    status = f"status: {{conditions: [{condition}]}}\n"
    (objective,) = load(text.removesuffix("---\n") + status).inference.objectives
    assert objective.priority == 2


def test_more_conditions_than_there_may_be_are_told(write: Write, told: Told) -> None:
    text = write("InferencePool", POOL) + write("InferenceObjective", "{poolRef: {name: chat}}", "high")
    status = f"status: {{conditions: [{', '.join(['{}'] * 9)}]}}\n"
    assert told(text.removesuffix("---\n") + status) == [
        "10: warning: status.conditions: expected at most 8 items, got 9"
    ]


def test_a_priority_beyond_32_bits_is_only_for_the_experimental_group(
    objective_of: Callable[..., InferenceObjective], write: Write, told: Told
) -> None:
    spec = "{priority: 3000000000, poolRef: {name: chat}}"
    assert objective_of(spec).priority == 3_000_000_000
    (line,) = told(write("InferencePool", POOL) + write("InferenceObjective", spec, "high", ROUTER))
    assert line == "9: error: spec.priority: expected an integer from -2147483648 to 2147483647, got 3.000e+09"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{priority: '10', poolRef: {name: chat}}", 'spec.priority: expected an integer, got "10"'),
        ("{priority: 1.5, poolRef: {name: chat}}", "spec.priority: expected an integer, got 1.5"),
        ("{priority: 1}", "spec.poolRef: expected a mapping, found nothing"),
        ("{poolRef: {}}", "spec.poolRef.name: expected a string, found nothing"),
        ("{poolRef: {name: ''}}", 'spec.poolRef.name: expected text that is not empty, got ""'),
        (f"{{poolRef: {{name: {'a' * 254}}}}}", "spec.poolRef.name: expected at most 253 characters"),
        ("{poolRef: {name: chat, group: example.com/bar}}", 'got "example.com/bar"'),
        ("{poolRef: {name: chat, kind: invalid/kind}}", 'got "invalid/kind"'),
        ("{poolRef: {name: chat, kind: ''}}", "spec.poolRef.kind: expected text that is not empty"),
        (f"{{priority: {10**30}, poolRef: {{name: chat}}}}", "spec.priority: expected an integer"),
    ],
)
def test_an_objective_that_is_refused(load: Load, write: Write, told: Told, spec: str, message: str) -> None:
    text = write("InferencePool", POOL) + write("InferenceObjective", spec, "high")
    (line,) = told(text)
    assert message in line
    declaration = load(text)
    assert not declaration.inference.objectives
    assert [broken.key.kind for broken in declaration.broken] == ["InferenceObjective"]


@pytest.mark.parametrize("group", ["''", "gateway.networking.k8s.io", "foo.example.com"])
def test_any_group_may_be_meant_although_no_pool_is_of_it(write: Write, told: Told, group: str) -> None:
    spec = f"{{poolRef: {{name: chat, group: {group}}}}}"
    (line,) = told(write("InferencePool", POOL) + write("InferenceObjective", spec, "high"))
    assert "InferencePool llm/chat is of inference.networking.k8s.io, not of " in line


def test_models_under_an_objective_are_told_and_the_objective_is_kept(load: Load, write: Write, told: Told) -> None:
    spec = "{priority: 1, poolRef: {name: chat}, targetModels: [{name: a}]}"
    text = write("InferencePool", POOL) + write("InferenceObjective", spec, "high")
    assert told(text) == ["9: warning: spec.targetModels: unknown field"]
    assert load(text).inference.objectives[0].priority == 1


def test_an_objective_whose_pool_is_not_in_git_is_told(write: Write, told: Told) -> None:
    assert told(write("InferenceObjective", "{poolRef: {name: gone}}")) == [
        "4: warning: spec.poolRef: InferencePool llm/gone is not in Git: this has no effect"
    ]


def test_an_objective_whose_pool_is_broken_is_told_only_there(write: Write, told: Told) -> None:
    (line,) = told(write("InferencePool", "{}") + write("InferenceObjective", "{poolRef: {name: chat}}"))[:1]
    assert line.startswith("4: error: spec")
    assert len(told(write("InferencePool", "{}") + write("InferenceObjective", "{poolRef: {name: chat}}"))) == 2


def test_where_both_groups_are_in_use_the_experimental_one_is_ignored(write: Write, told: Told) -> None:
    spec = "{poolRef: {name: chat}}"
    text = write("InferencePool", POOL) + write("InferenceObjective", spec, "high")
    (line,) = told(text + write("InferenceObjective", spec, "high", ROUTER))
    assert line.startswith("6: warning: apiVersion: the router ignores inference.networking.x-k8s.io where llm-d.ai is")


def test_an_objective_of_a_group_that_has_none_is_an_error(write: Write, told: Told) -> None:
    text = write("InferenceObjective", "{poolRef: {name: chat}}", version="inference.networking.k8s.io/v1")
    (line,) = told(text)
    assert line.startswith(f'1: error: apiVersion: expected "{EXPERIMENTAL}" or "{ROUTER}", got')


def test_an_objective_that_a_chart_fills_in_is_held(load: Load, write: Write) -> None:
    declaration = load(write("InferenceObjective", "{priority: 1, poolRef: {name: '{{ .Release.Name }}'}}"))
    assert [finding.severity.value for finding in declaration.findings] == ["warning"]
    assert declaration.broken[0].reason.endswith("cannot be read from Git")


def model(spec: str) -> str:
    return f"{{modelName: food, poolRef: {{name: chat}}{spec}}}"


@pytest.fixture
def read_older(load: Load, write: Write) -> Callable[[str], Declaration]:
    """An InferenceModel beside the pool it is for."""
    pool = write("InferencePool", OLDER_POOL, version=EXPERIMENTAL)
    return lambda spec: load(pool + write("InferenceModel", spec, "food"))


def test_an_older_model_is_carried_over_field_by_field(read_older: Callable[[str], Declaration]) -> None:
    targets = "targetModels: [{name: a, weight: 10}, {name: b, weight: 90}]"
    declaration = read_older(model(f", criticality: Critical, {targets}"))
    assert not declaration.findings
    (found,) = declaration.inference.models
    assert (found.spec.model_name, found.criticality) == ("food", "Critical")
    assert found.spec.pool_ref.group == "inference.networking.x-k8s.io"


def test_without_criticality_a_model_is_standard(read_older: Callable[[str], Declaration]) -> None:
    (found,) = read_older(model("")).inference.models
    assert (found.criticality, found.spec.criticality) == ("Standard", None)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (model(", criticality: High"), 'expected "Critical", "Standard" or "Sheddable", got "High"'),
        (
            model(", targetModels: [{name: a, weight: 1}, {name: b}]"),
            "a weight for every model or for none, got 1 of 2",
        ),
        (model(", targetModels: [{name: a, weight: 0}]"), "weight: expected at least 1, got 0"),
        (model(f", targetModels: [{', '.join(['{name: a}'] * 11)}]"), "targetModels: expected at most 10 items"),
        ("{poolRef: {name: chat}}", "spec.modelName: expected a string, found nothing"),
        (f"{{modelName: {'m' * 257}, poolRef: {{name: chat}}}}", "spec.modelName: expected at most 256 characters"),
    ],
)
def test_an_older_model_that_is_refused(read_older: Callable[[str], Declaration], spec: str, message: str) -> None:
    declaration = read_older(spec)
    (finding,) = declaration.findings
    assert message in str(finding)
    assert not declaration.inference.models


def test_a_model_name_that_is_taken_in_its_pool_is_told(load: Load, write: Write) -> None:
    pool = write("InferencePool", OLDER_POOL, version=EXPERIMENTAL)
    declaration = load(pool + write("InferenceModel", model(""), "a") + write("InferenceModel", model(""), "b"))
    assert [str(finding) for finding in declaration.findings] == [
        'a.yaml:11: warning: spec.modelName: modelName "food" is already taken in this pool at a.yaml:6'
    ]


def test_a_rewrite_names_its_pool(load: Load, write: Write) -> None:
    exact = "{matches: [{model: {value: chat}}, {model: {value: talk}}], targets: [{modelRewrite: v2}]}"
    generic = "{matches: [{}, {model: {value: chat}}], targets: [{modelRewrite: v1, weight: 90}, {modelRewrite: v2}]}"
    spec = f"{{poolRef: {{name: chat}}, rules: [{exact}, {generic}]}}"
    declaration = load(write("InferencePool", POOL) + write("InferenceModelRewrite", spec))
    assert not declaration.findings
    (found,) = declaration.inference.rewrites
    assert (found.spec.pool_ref.name, found.spec.pool_ref.group) == ("chat", "inference.networking.k8s.io")


def test_what_a_router_knows_and_no_count_depends_on_is_noted(load: Load, write: Write) -> None:
    rewrite = write("InferenceModelRewrite", "{poolRef: {name: chat}, rules: [{targets: [{modelRewrite: v2}]}]}")
    older = write("InferenceModel", model(", targetModels: [{name: a}]"), "food")
    declaration = load(write("InferencePool", POOL) + rewrite + older)
    assert [note.place.field for note in declaration.notes] == ["spec.rules", "spec.modelName", "spec.targetModels"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("[{targets: []}]", "spec.rules[0].targets: expected at least one item, got an empty list"),
        ("[{matches: []}]", "spec.rules[0].targets: expected a list, found nothing"),
        ("[{targets: [{weight: 1}]}]", "modelRewrite: expected a string, found nothing"),
        ("[{targets: [{modelRewrite: a, weight: 1000001}]}]", "weight: expected at most 1000000, got 1000001"),
        ("[{matches: [{model: {value: ''}}], targets: [{modelRewrite: a}]}]", "value: expected text that is not empty"),
        ("[{matches: [{model: {type: Prefix, value: a}}], targets: [{modelRewrite: a}]}]", 'expected "Exact", got'),
    ],
)
def test_a_rewrite_that_is_refused(load: Load, write: Write, told: Told, rules: str, message: str) -> None:
    text = write("InferencePool", POOL) + write("InferenceModelRewrite", f"{{poolRef: {{name: chat}}, rules: {rules}}}")
    (line,) = told(text)
    assert message in line
    assert not load(text).inference.rewrites
