"""What claims, models, flavors and runtimes mean together, and which of their combinations do not do what they say."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.holds import HoldKind
from reconciler.domain.identity import Place
from reconciler.domain.inventory import Accelerator, Catalog
from reconciler.resources.declaration import Declaration
from reconciler.resources.llmaz.models import list_spellings, order_flavors, recognise_flavor
from reconciler.resources.llmaz.servings import ServedModel, join_served_models
from reconciler.resources.variants import Flavor, RankedFlavor

Load = Callable[[str], Declaration]
Write = Callable[..., str]
Told = Callable[[str], list[str]]

FLAVORS = """
familyName: llama3
source: {modelHub: {modelID: meta-llama/Meta-Llama-3-8B}}
inferenceConfig:
  flavors:
    - {name: a100, limits: {nvidia.com/gpu: 1}, nodeSelector: {gpu: a100}}
    - {name: l4, limits: {nvidia.com/gpu: 1}, nodeSelector: {gpu: l4}}
    - {name: t4, limits: {nvidia.com/gpu: 4}, nodeSelector: {gpu: t4}}
    - {name: any, limits: {nvidia.com/gpu: 1}}
"""
NOWHERE = Place(path="a.yaml")


def flavor(name: str = "a", **fields: object) -> Flavor:
    values: dict[str, object] = {"name": name, "place": NOWHERE}
    return Flavor(**(values | fields))  # type: ignore[arg-type]  # fields are named by each test


def join_all(declared: Declaration) -> tuple[ServedModel, ...]:
    return join_served_models(declared.llmaz, declared.workloads, declared.broken)


@pytest.fixture
def join(load: Load, write: Write) -> Callable[..., ServedModel]:
    """The one Playground of a spec beside the model with four flavors, and other objects."""

    def _join(spec: str, *others: str) -> ServedModel:
        text = write("OpenModel", FLAVORS, name="llama") + write("Playground", spec, name="chat") + "".join(others)
        (served,) = join_all(load(text))
        return served

    return _join


def names(served: ServedModel) -> list[str]:
    return [each.name for each in served.flavors]


def test_the_flavors_of_a_claim_are_candidates_in_its_order(join: Callable[..., ServedModel]) -> None:
    served = join("modelClaim: {modelName: llama, inferenceFlavors: [t4, a100]}")
    assert [(each.name, each.rank) for each in served.flavors] == [("t4", 0), ("a100", 1)]
    assert served.workload.devices == {"nvidia.com/gpu": 4}
    assert served.workload.node_selector == {"gpu": "t4"}


def test_without_flavors_in_the_claim_all_of_the_model_are_candidates(join: Callable[..., ServedModel]) -> None:
    served = join("modelClaim: {modelName: llama}")
    assert names(served) == ["a100", "l4", "t4", "any"]
    assert served.workload.node_selector == {"gpu": "a100"}


def test_the_pods_carry_the_labels_that_llmaz_gives_them(join: Callable[..., ServedModel]) -> None:
    served = join("modelClaim: {modelName: llama}")
    assert served.model_name == "llama"
    assert served.workload.served_names == ("llama",)
    assert served.workload.template_labels == {
        "llmaz.io/model-name": "llama",
        "llmaz.io/model-family-name": "llama3",
    }


def test_only_the_main_model_decides_about_flavors(join: Callable[..., ServedModel], write: Write) -> None:
    draft = write("OpenModel", FLAVORS.replace("gpu: 1", "gpu: 8"), name="small")
    served = join("modelClaims: {models: [{name: small, role: draft}, {name: llama}]}", draft)
    assert served.model_name == "llama"
    assert served.workload.devices == {"nvidia.com/gpu": 1}


def test_a_service_injects_its_flavor_into_every_pod_of_a_group(load: Load, write: Write) -> None:
    container = "{name: model-runner, resources: {limits: {nvidia.com/gpu: 2}}}"
    template = f"{{size: 3, workerTemplate: {{spec: {{containers: [{container}], nodeSelector: {{gpu: mine}}}}}}}}"
    spec = f"modelClaims: {{models: [{{name: llama}}], inferenceFlavors: [t4]}}\nworkloadTemplate: {template}"
    (served,) = join_all(load(write("OpenModel", FLAVORS, name="llama") + write("Service", spec)))
    assert served.workload.devices == {"nvidia.com/gpu": 3 * 4}
    assert served.workload.node_selector == {"gpu": "mine"}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", "OpenModel llama is not in Git"),
        ("{familyName: q}", "OpenModel llama cannot be used (a.yaml:1)"),
        ("{familyName: q, source: {uri: 'host:///m'}}", 'OpenModel llama has no flavor "t4", but none (a.yaml:1)'),
    ],
)
def test_without_its_model_or_flavor_nothing_can_be_decided(load: Load, write: Write, model: str, words: str) -> None:
    text = write("OpenModel", model, name="llama") if model else ""
    text += write("Playground", "modelClaim: {modelName: llama, inferenceFlavors: [t4]}")
    (served,) = join_all(load(text))
    assert served.hold is not None
    assert (served.hold.kind, served.hold.words) == (HoldKind.REFERENCE_MISSING, words)


def test_a_runtime_in_git_adds_its_arguments_before_those_of_the_playground(
    join: Callable[..., ServedModel], write: Write
) -> None:
    runtime = write(
        "BackendRuntime",
        "image: mine/vllm-openai\nversion: v1\nrecommendedConfigs:\n"
        '  - {name: default, args: [--max-num-seqs, "8", --tensor-parallel-size, "2"]}\n'
        '  - {name: fast, args: [--max-num-seqs, "16"], resources: {limits: {nvidia.com/gpu: 2}}}\n',
        name="mine",
    )
    config = 'backendRuntimeConfig: {backendName: mine, args: [--max-num-seqs, "32"]NAMED}'
    spec = f"modelClaim: {{modelName: llama}}\n{config}"
    default = join(spec.replace("NAMED", ""), runtime).workload
    assert default.engine == "vllm"
    assert default.launch is not None
    assert (default.launch.max_num_seqs, default.launch.tensor_parallel) == (32, 2)
    named = join(spec.replace("NAMED", ", configName: fast"), runtime).workload
    assert named.launch is not None
    assert named.launch.tensor_parallel == 1


def test_the_trigger_of_a_runtime_owns_replicas_where_a_playground_is_elastic(load: Load, write: Write) -> None:
    trigger = "scaleTrigger: {hpa: {metrics: []}}"
    runtime = write(
        "BackendRuntime",
        f"image: i\nversion: v\nrecommendedConfigs: [{{name: default, {trigger}}}, {{name: fast}}]",
        name="vllm",
    )
    spec = "{modelClaim: {modelName: m}, backendRuntimeConfig: {configName: fast}ELASTIC}"
    elastic = write("Playground", spec.replace("ELASTIC", ", elasticConfig: {maxReplicas: 2}"))
    (owner,) = load(runtime + elastic).owners
    assert (owner.target_kind, owner.place.field) == ("Playground", "spec.recommendedConfigs[0].scaleTrigger")
    assert load(runtime + write("Playground", spec.replace("ELASTIC", ""))).owners == ()


def _settings(scheduler: str) -> str:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: llmaz-global-config, namespace: llmaz-system}\n"
    return f"{head}data:\n  config.data: |\n    scheduler-name: {scheduler}\n    init-container-image: i\n"


def test_whether_flavors_place_pods_is_known_from_the_scheduler(join: Callable[..., ServedModel]) -> None:
    claim = "modelClaim: {modelName: llama}"
    assert join(claim).is_placed is None
    assert join(claim, _settings("inftyai-scheduler")).is_placed is True
    assert join(claim, _settings("default-scheduler")).is_placed is False


A100 = Accelerator(name="A100", device="A100", aliases=("p4d.24xlarge", "a100-80"), cost_per_hour=4.0)
L4 = Accelerator(name="L4", device="L4", node_selector={"nvidia.com/gpu.product": "NVIDIA-L4"}, cost_per_hour=0.7)
CATALOG = Catalog(
    accelerators={"A100": A100, "L4": L4},
    names={"p4d.24xlarge": "A100", "a100-80": "A100", "a100": "A100", "l4": "L4"},
)


@pytest.mark.parametrize(
    ("written", "accelerator", "source"),
    [
        (flavor("x", params={"INSTANCE-TYPE": "p4d.24xlarge"}), A100, "params INSTANCE-TYPE"),
        (flavor("l4", params={"instance-type": "p4d.24xlarge"}), A100, "params INSTANCE-TYPE"),
        (flavor("x", node_selector={"nvidia.com/gpu.product": "NVIDIA-L4", "zone": "a"}), L4, "nodeSelector"),
        (
            flavor("l4", node_selector={"karpenter.k8s.aws/instance-gpu-name": "a100"}),
            A100,
            "nodeSelector karpenter.k8s.aws/instance-gpu-name",
        ),
        (flavor("x", node_selector={"example.com/gpu": "A100-80"}), A100, "nodeSelector example.com/gpu"),
        (flavor("a100", params={"INSTANCE-TYPE": "unknown"}), A100, "flavor name"),
        (flavor("x"), None, ""),
    ],
)
def test_a_flavor_is_priced_by_whatever_names_its_accelerator(
    written: Flavor, accelerator: Accelerator | None, source: str
) -> None:
    assert recognise_flavor(written, CATALOG) == (accelerator, source)


def test_every_text_that_may_name_an_accelerator_is_listed_in_order() -> None:
    selector = {"zone": "a", "nvidia.com/gpu.product": "L4", "node.kubernetes.io/instance-type": "g6.xlarge"}
    written = flavor("small", params={"INSTANCE-TYPE": "g6"}, node_selector=selector)
    assert [each.text for each in list_spellings(written)] == ["g6", "g6.xlarge", "L4", "a", "small"]


def ranked(*flavors: Flavor | None) -> tuple[RankedFlavor, ...]:
    return tuple(
        RankedFlavor(name=each.name if each else "gone", rank=rank, flavor=each) for rank, each in enumerate(flavors)
    )


def placed(name: str, count: int = 1) -> Flavor:
    return flavor(name, devices={"nvidia.com/gpu": count}, node_selector={"gpu": name})


@pytest.mark.parametrize(
    ("flavors", "ordered"),
    [
        ((placed("a"), placed("b"), placed("c")), ("b", "a", "c")),
        ((placed("a", 2), placed("b")), ("b",)),
        ((flavor("a", devices={"nvidia.com/gpu": 1}), placed("b")), ("b",)),
        ((placed("a"), flavor("b", devices={"nvidia.com/gpu": 1})), ("b",)),
        ((None, placed("b")), ("b",)),
        ((placed("b"),), ("b",)),
    ],
)
def test_a_chosen_flavor_comes_first_and_keeps_only_fallbacks_that_fit(
    flavors: tuple[Flavor | None, ...], ordered: tuple[str, ...]
) -> None:
    assert order_flavors(ranked(*flavors), "b") == ordered


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True, min_size=1), st.data())
def test_the_chosen_flavor_is_always_the_first_and_nothing_is_added(written: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(written))
    flavors = [placed(name, data.draw(st.integers(0, 2))) for name in written]
    ordered = order_flavors(ranked(*flavors), chosen)
    assert ordered[0] == chosen
    assert len(set(ordered)) == len(ordered)
    assert set(ordered) <= set(written)


CLAIM = "modelClaim: {modelName: llama, inferenceFlavors: FLAVORS}"
TRAPS = [
    ("[l4, h100]", 'OpenModel llama has no flavor "h100", but "a100", "l4", "t4" or "any": llmaz takes it and gives'),
    ("[a100, t4]", 'flavors "a100" and "t4" differ in their devices: llmaz asks for those of the first wherever'),
    ("[a100, any]", 'flavor "any" has no nodeSelector: the scheduler then looks at no flavor at all'),
]


@pytest.mark.parametrize(("flavors", "message"), TRAPS)
def test_flavors_that_do_not_do_what_they_say_are_told(write: Write, told: Told, flavors: str, message: str) -> None:
    text = write("OpenModel", FLAVORS, name="llama") + write("Playground", CLAIM.replace("FLAVORS", flavors))
    (line,) = told(text)
    assert line.startswith(f"18: warning: spec.modelClaim.inferenceFlavors: {message}")


def test_flavors_that_can_stand_in_for_each_other_are_fine(write: Write, told: Told) -> None:
    text = write("OpenModel", FLAVORS, name="llama") + write("Playground", CLAIM.replace("FLAVORS", "[l4, a100]"))
    assert told(text) == []


def test_a_model_that_is_not_in_git_is_told_at_its_claim(write: Write, told: Told) -> None:
    assert told(write("Playground", "modelClaim: {modelName: llama}")) == [
        "5: warning: spec.modelClaim.modelName: OpenModel llama is not in Git: nothing can be decided"
    ]


def test_a_model_that_is_broken_is_told_only_where_it_stands(write: Write, told: Told) -> None:
    text = write("OpenModel", "{familyName: q}", name="llama") + write("Playground", "modelClaim: {modelName: llama}")
    assert told(text) == ["4: error: spec.source: expected a mapping, found nothing"]


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("{backendName: sglang}", "sglang serves no metrics without --enable-metrics: add it to args"),
        ("{backendName: ollama}", "ollama serves no metrics: its load is unknown"),
        ("{backendName: tensorrt-llm}", "tensorrt-llm serves no metrics without a configuration of its own"),
        ('{args: [--tensor-parallel-size, "8"]}', '8 devices are asked for by the arguments, 1 by flavor "l4"'),
        ("{backendName: mine, configName: slow}", 'BackendRuntime mine has no config "slow", but "default"'),
    ],
)
def test_backends_that_do_not_work_or_cannot_be_measured_are_told(
    write: Write, told: Told, backend: str, message: str
) -> None:
    text = write("OpenModel", FLAVORS, name="llama")
    text += write("BackendRuntime", "{image: i, version: v, recommendedConfigs: [{name: default}]}", name="mine")
    claim = "modelClaim: {modelName: llama, inferenceFlavors: [l4]}"
    (line,) = told(text + write("Playground", f"{claim}\nbackendRuntimeConfig: {backend}"))
    assert line.startswith("25: warning: spec.backendRuntimeConfig: ")
    assert message in line


@pytest.mark.parametrize("protocol", ["s3", "gcs"])
def test_weights_that_the_loader_cannot_read_are_told(write: Write, told: Told, protocol: str) -> None:
    text = write("OpenModel", f"{{familyName: q, source: {{uri: '{protocol}://b/m'}}}}", name="llama")
    claim = "modelClaim: {modelName: llama}"
    (line,) = told(text + write("Playground", claim))
    assert f"the weights are at {protocol}://, which llmaz's loader cannot read" in line
    skipping = write("Playground", claim, annotations='{llmaz.io/skip-model-loader: "true"}')
    assert told(text + skipping) == []


def test_a_scheduler_that_does_not_know_flavors_is_told_once(write: Write, told: Told) -> None:
    claim = CLAIM.replace("FLAVORS", "[l4]")
    text = write("OpenModel", FLAVORS, name="llama") + write("Playground", claim) + write("Playground", claim, name="b")
    (line,) = told(text + _settings("default-scheduler"))
    assert line.startswith('30: warning: data["config.data"]: pods go to the scheduler "default-scheduler", which does')
    assert line.endswith("their nodes are not enforced")
    assert told(text + _settings("inftyai-scheduler")) == []
