"""Model and ModelBooster: every field of the API document carried, each backend a workload of its own."""

from collections.abc import Callable

from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.metric_targets import Generation
from reconciler.domain.workloads import Annotation, LaunchSettings
from reconciler.resources.declaration import Declaration
from reconciler.resources.kthena.models import ModelResource

Sample = Callable[[str], Declaration]


def model(sample: Sample, generation: str, name: str) -> ModelResource:
    return next(each for each in sample(generation).kthena.models if each.key.name == name)


def test_a_model_carries_what_its_spec_says(sample: Sample) -> None:
    read = model(sample, "g1", "deepseek")
    assert (read.model_id, read.matched_name, read.generation) == ("deepseek-r1", "deepseek", Generation.G1)
    assert (read.cost_expansion_percent, read.has_policy) == (300, True)
    assert read.served_names == ("deepseek-r1", "deepseek", "sql")
    place = Place(path="a.yaml", line=64, field='metadata.annotations["reconciler.io/min-replicas"]')
    assert read.settings == {"minReplicas": Annotation(value=2, place=place)}


def test_a_backend_carries_all_its_fields(sample: Sample) -> None:
    first, second = model(sample, "g1", "deepseek").backends
    assert (first.name, first.type, first.serving) == ("h100", "vLLM", "deepseek-h100")
    assert (first.min_replicas, first.max_replicas, first.cost, first.route_weight) == (4, 6, 100, 70)
    assert (second.route_weight, second.scale_to_zero_grace_s) == (100, 30.0)
    assert first.lora_adapters == ("sql",)
    assert "8100" not in repr(first).partition("workers=")[0], "a value may be a secret"
    (worker,) = first.workers
    assert (worker.kind, worker.devices, worker.num_pods) == ("server", {"nvidia.com/gpu": 8}, 2)
    assert worker.flags["tensor-parallel-size"] == "16"
    assert second.workers[0].kind == "server", "the default"


def test_a_replica_of_a_backend_is_made_of_all_its_pods(sample: Sample) -> None:
    workload = model(sample, "g1", "deepseek").backends[0].workload
    assert workload.key == ResourceKey(cluster="prod", namespace="llm", kind="Model", name="deepseek", part="h100")
    assert workload.devices == {"nvidia.com/gpu": 16}
    assert workload.affinity == {"nvidia.com/gpu.product": ("NVIDIA-H100-80GB-HBM3",)}
    assert workload.engine == "vllm"
    assert workload.launch == LaunchSettings(memory_fraction=0.85, tensor_parallel=16, max_model_tokens=32768)
    assert workload.served_names == ("deepseek-r1",)
    prefill = model(sample, "g1", "phi").backends[0].workload
    assert (prefill.engine, prefill.devices) == ("vllm", {})
    assert model(sample, "g1", "phi").backends[1].workload.engine == "", "MindIE is none that is read"


def test_the_number_of_a_backend_is_written_to_one_field_or_to_both(sample: Sample) -> None:
    def written(read: ModelResource, index: int) -> list[tuple[str | int, ...]]:
        return [each.field for each in read.backends[index].workload.written_at]

    assert written(model(sample, "g1", "deepseek"), 1) == [("spec", "backends", 1, "minReplicas")]
    assert written(model(sample, "g1", "phi"), 0) == [("spec", "backends", 0, "minReplicas")]
    assert written(model(sample, "g1", "phi"), 1) == [
        ("spec", "backends", 1, "minReplicas"),
        ("spec", "backends", 1, "maxReplicas"),
    ]
    assert written(model(sample, "g3", "qwen"), 0) == [
        ("spec", "backend", "minReplicas"),
        ("spec", "backend", "maxReplicas"),
    ]
    assert written(model(sample, "g4", "gemma"), 0) == [("spec", "backend", "replicas")]


def test_replicas_in_git_are_those_of_the_written_field(sample: Sample) -> None:
    phi = model(sample, "g1", "phi").backends[1].workload
    assert (phi.replicas, phi.replicas_place and phi.replicas_place.field) == (2, "spec.backends[1].minReplicas")
    gemma = model(sample, "g4", "gemma").backends[0]
    assert (gemma.workload.replicas, gemma.min_replicas, gemma.max_replicas) == (2, 2, 2)


def test_boosters_are_told_apart_by_their_backends(sample: Sample) -> None:
    assert model(sample, "g2", "gpt-oss").generation is Generation.G2
    assert model(sample, "g3", "qwen").generation is Generation.G3
    assert model(sample, "g3", "mixtral").has_policy
    assert model(sample, "g4", "gemma").generation is Generation.G4
    assert model(sample, "g4", "gemma").backends[0].serving == "gemma-main"


def test_backends_are_scale_targets_of_the_declaration(sample: Sample) -> None:
    keys = {workload.key.label for workload in sample("g1").workloads}
    assert {"llm/deepseek/h100", "llm/deepseek/a100", "llm/phi/alone", "llm/phi/fixed"} <= keys


def test_backends_of_the_oldest_models_point_at_policies_by_name(sample: Sample) -> None:
    read = model(sample, "g0", "qwen")
    assert (read.policy, read.policy_ref) == (None, "waiting")
    assert [backend.cost for backend in read.backends] == [100, 30]
    assert [backend.scale_to_zero_grace_s for backend in read.backends] == [60.0, 30.0]
