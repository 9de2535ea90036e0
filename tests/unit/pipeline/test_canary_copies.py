"""What a canary is a copy of: written so that the cluster gets what was planned, and refused where it would not."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import load_settings
from reconciler.domain.canaries import CopyPlace, Measured
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Trace
from reconciler.domain.priors import Lengths, Prior
from reconciler.domain.recording import ManifestFile, Recording
from reconciler.domain.records import replace
from reconciler.domain.snapshot import Variant
from reconciler.domain.written import DocumentRef
from reconciler.manifests.documents import parse_documents, parse_readable
from reconciler.pipeline.draft import Checker, says_the_same
from reconciler.pipeline.edits import Editor, Sheet, sheet_of, write_edits
from reconciler.rendering.renderer import Renderer
from reconciler.sizing.prior.datasheets import DATASHEETS
from reconciler.sizing.prior.estimate import Hardware, estimate
from reconciler.sizing.prior.posterior import update
from reconciler.sizing.prior.shapes import SHAPES
from reconciler.snapshot.build import read_snapshot
from reconciler.snapshot.canaries import (
    UNKNOWN_SCHEDULER,
    find_difference,
    is_own_label,
    new_canary,
    parse_measured,
    write_measured,
)
from reconciler.snapshot.declarations import read_declaration
from reconciler.snapshot.priors import shape_of
from reconciler.snapshot.variants import build_catalogs, declared_variants

SETTINGS = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: prod}]
accelerators:
  - {name: H100, nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}, costPerHour: 3.00}
  - {name: A100, nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}, costPerHour: 4.00}
serviceClasses: [{name: fast, itl: 20ms}, {name: usual, itl: 60ms}]
defaults: {serviceClass: usual}
"""
PROFILED = """\
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata:
  name: chat
  namespace: llm
  labels: {inference.optimization/acceleratorName: A100, team: search}
spec:
  modelID: meta-llama/Llama-3.1-8B-Instruct
  sloClassRef: {name: fast, key: fast}
  modelProfile: {accelerators: [{acc: A100, accCount: 1, alpha: "13.5", beta: "0.12", atTokens: 180, maxBatchSize: 9}]}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: llm}
spec:
  replicas: 4
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.11.0", resources: {limits: {nvidia.com/gpu: "1"}}}]}
"""
PLAYGROUND = """\
apiVersion: inference.llmaz.io/v1alpha1
kind: Playground
metadata: {name: chat, namespace: llm, annotations: {reconciler.io/max-replicas: "9"}}
spec:
  replicas: 4
  modelClaim: {modelName: llama, inferenceFlavors: [a100]}
  elasticConfig: {minReplicas: 2, maxReplicas: 8}
"""
MODEL = """\
apiVersion: llmaz.io/v1alpha1
kind: OpenModel
metadata: {name: llama}
spec:
  familyName: llama3
  source: {modelHub: {modelID: meta-llama/Llama-3.1-8B-Instruct}}
  inferenceConfig:
    flavors:
      - {name: a100, limits: {nvidia.com/gpu: 1}, nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}}
      - {name: h100, limits: {nvidia.com/gpu: 1}, nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
"""
POOL = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: llm}
spec:
  selector: {matchLabels: {llmaz.io/model-name: llama}}
  targetPorts: [{number: 8080}]
  endpointPickerRef: {name: epp, port: {number: 9002}}
"""
SCHEDULER = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: llmaz-global-config, namespace: llmaz-system}
data: {config.data: "scheduler-name: inftyai-scheduler\\ninit-container-image: loader"}
"""
PLAYED = {"play.yaml": PLAYGROUND, "model.yaml": MODEL, "pool.yaml": POOL, "scheduler.yaml": SCHEDULER}


def recorded(files: Mapping[str, str], settings: str) -> Recording:
    loaded = load_settings(
        repository_file=settings.encode(),
        read_repository_file=lambda _path: None,
        flags=Flags(prometheus="http://127.0.0.1:9"),
        environment=Environment(),
    )
    return Recording(
        now_s=0.0,
        repository="fleet",
        branch="main",
        commit="0" * 40,
        settings=loaded.settings,
        manifests=tuple(ManifestFile(path=path, body=body.encode()) for path, body in sorted(files.items())),
        withheld=(),
        unread=(),
        answers=(),
        proposals=(),
        paths=tuple(files),
    )


def planned(files: Mapping[str, str], settings: str = SETTINGS) -> tuple[Recording, Variant | str]:
    """The canary of the first variant on an H100, or why there can be none."""
    recording = recorded(files, settings)
    declaration = read_declaration(recording.manifests, (), recording.settings, files)
    original = declared_variants(recording.settings, declaration)[0]
    accelerator = build_catalogs(recording.settings, declaration)["prod"].accelerators["H100"]
    place = CopyPlace() if original.workload is None else original.workload.copies_at or CopyPlace()
    return recording, new_canary(original, accelerator, place, recording.settings.pull_requests.group_by)


def refusal(files: Mapping[str, str]) -> str:
    _, found = planned(files)
    assert isinstance(found, str)
    return found


def written(recording: Recording, canary: Variant) -> dict[str, bytes]:
    """Its file, as a run writes it."""
    assert canary.copied is not None
    bodies = {each.path: each.body for each in recording.manifests}

    def open_sheet(reference: DocumentRef) -> Sheet:
        documents, _ = parse_readable(reference.path, bodies[reference.path])
        return sheet_of(documents, reference)

    edit = Editor(renderer=Renderer()).copy_edit(canary, canary.copied, "H100", 1, open_sheet)
    return {edit.path: write_edits(edit.path, b"", [edit])}


@pytest.mark.parametrize(
    ("files", "annotations"),
    [
        ({"chat.yaml": f"{PROFILED}---\n{DEPLOYMENT}"}, {"service-class": "fast", "group": "search"}),
        (PLAYED, {}),
    ],
    ids=["profile form", "llmaz"],
)
def test_the_cluster_gets_what_was_planned(files: Mapping[str, str], annotations: Mapping[str, str]) -> None:
    settings = SETTINGS + "pullRequests: {groupBy: ['label:team']}\n" if annotations else SETTINGS
    recording, canary = planned(files, settings)
    assert isinstance(canary, Variant)
    assert canary.copied is not None
    assert (canary.copied.annotations, canary.copied.place.caution) == (annotations, "")
    text = written(recording, canary)
    found = Checker(recording=recording).declared(text, [canary.key])[canary.key]
    assert find_difference(canary, found) == ""
    assert (found.current.accelerator, found.form, found.current.replicas) == ("H100", canary.form, 1)
    assert (b"elasticConfig" in text[canary.document.path], b"max-replicas" in text[canary.document.path]) == (0, 0)
    assert find_difference(canary, None) == "would not be applied"
    other = replace(canary, current=replace(canary.current, accelerator="H200"))
    assert find_difference(other, found) == "would have accelerator H100 instead of H200"


def test_the_labels_of_its_own_are_those_that_a_reader_is_told() -> None:
    labels = {"app": "chat", "llm-d.ai/variant": "chat", "inference.optimization/acceleratorName": "A100"}
    told = f"metadata: {{labels: {json.dumps(labels)}}}"
    recording, canary = planned(
        {"chat.yaml": f"{PROFILED}---\n{DEPLOYMENT.replace('metadata: {labels: {app: chat}}', told)}"}
    )
    assert isinstance(canary, Variant)
    (body,) = written(recording, canary).values()
    (document,) = parse_documents("canary.yaml", body)
    copied: Any = document.value
    for part in ("spec", "template", "metadata", "labels"):
        copied = copied[part]
    assert {name for name in labels if copied.get(name) != labels[name]} == set(filter(is_own_label, labels))
    assert copied == {"app": "chat", "llm-d.ai/variant": canary.key.name, "reconciler.io/canary": canary.key.name}


def test_a_class_that_a_deployment_cannot_name_is_in_its_way() -> None:
    listed = (
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: slos, namespace: llm}\ndata:\n  slow: |\n"
        "    name: slow\n    priority: 1\n    data:\n"
        "      - {model: meta-llama/Llama-3.1-8B-Instruct, slo-tpot: 50, slo-ttft: 1000}\n"
    )
    profiled = PROFILED.replace("{name: fast, key: fast}", "{name: slos, key: slow}")
    recording, canary = planned({"chat.yaml": f"{profiled}---\n{DEPLOYMENT}{listed}"})
    assert isinstance(canary, Variant)
    found = Checker(recording=recording).declared(written(recording, canary), [canary.key])[canary.key]
    assert 'service class "slow"' in find_difference(canary, found)


@pytest.mark.parametrize(
    ("path", "old", "new", "words"),
    [
        (
            "pool.yaml",
            "llmaz.io/model-name: llama",
            "leaderworkerset.sigs.k8s.io/name: chat",
            "no InferencePool in Git",
        ),
        ("scheduler.yaml", "inftyai-scheduler", "default-scheduler", "do not use inftyai-scheduler"),
        (
            "model.yaml",
            "name: h100, limits: {nvidia.com/gpu: 1}",
            "name: h100, limits: {nvidia.com/gpu: 2}",
            "no flavor",
        ),
        (
            "model.yaml",
            ", nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}",
            "",
            "its OpenModel has no flavor of H100 with a nodeSelector",
        ),
    ],
)
def test_a_second_playground_that_would_measure_nothing_is_not_written(
    path: str, old: str, new: str, words: str
) -> None:
    assert old in PLAYED[path]
    assert words in refusal({**PLAYED, path: PLAYED[path].replace(old, new)})


def test_where_nothing_says_who_places_pods_a_reader_is_told() -> None:
    _, canary = planned({path: body for path, body in PLAYED.items() if path != "scheduler.yaml"})
    assert isinstance(canary, Variant)
    assert canary.copied is not None
    assert canary.copied.place.caution == UNKNOWN_SCHEDULER


@pytest.mark.parametrize(("model_id", "is_known"), [("meta-llama/Llama-3.1-8B-Instruct", True), ("acme/tuned", False)])
def test_the_id_on_its_hub_says_the_shape_of_a_model(model_id: str, *, is_known: bool) -> None:
    files = {**PLAYED, "model.yaml": MODEL.replace("meta-llama/Llama-3.1-8B-Instruct", model_id)}
    recording = recorded(files, SETTINGS)
    declaration = read_declaration(recording.manifests, (), recording.settings, files)
    models = {each.model_id: each for each in read_snapshot(recording, declaration, "").settings.models}
    shape = shape_of(models["llama"]) if "llama" in models else None
    assert (shape is not None) is is_known


NOW_S = 1_800_000_000.0


def a_measurement() -> Measured:
    """What a day on an H100 says of the model."""
    lengths = Lengths(input_tokens=1000.0, output_tokens=200.0)
    prior = estimate("llama", SHAPES["llama-3.1-8b"], Hardware(name="H100", datasheet=DATASHEETS["H100"]), lengths)
    assert isinstance(prior, Prior)
    count = 6 * 30
    series = {"running": 20.0, "input_tokens": 1000.0, "output_tokens": 200.0, "itl": 0.0123}
    trace = Trace(
        pod="a",
        variant=ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="chat"),
        start_s=NOW_S - 600.0 * count,
        step_s=600.0,
        series={name: np.full(count, value) for name, value in series.items()},
    )
    return update(prior, [trace], NOW_S)


def test_what_was_measured_is_read_back_from_its_text() -> None:
    measured = a_measurement()
    profile, text = measured.profile, write_measured(measured)
    found = parse_measured(text, profile.accelerator)
    assert text.startswith("2027-01-15, 30 hours, 180 samples: alpha ")
    assert (found.learning, found.max_batch_size) == (profile.learning, profile.max_batch_size)
    assert (found.alpha_s, found.beta_s) == pytest.approx((profile.alpha_s, profile.beta_s), rel=1e-4)


NODE = "nvidia.com/gpu.product: NVIDIA-{}"
H100, A100 = "H100-80GB-HBM3", "A100-SXM4-80GB"


def annotated(name: str, *, space: str = "llm", node: str = H100, **annotations: str) -> str:
    """A Deployment of the model in a namespace, on the nodes of an accelerator."""
    told = {"managed": "true", "model": "meta-llama/Llama-3.1-8B-Instruct"} | annotations
    text = ", ".join(f"reconciler.io/{key}: '{value}'" for key, value in told.items())
    head = f"metadata: {{name: {name}, namespace: {space}, annotations: {{{text}}}}}"
    body = DEPLOYMENT.replace("metadata: {name: chat, namespace: llm}", head, 1)
    return body.replace("spec: {containers", f"spec: {{nodeSelector: {{{NODE.format(node)}}}, containers", 1)


def joined(files: Mapping[str, str]) -> dict[str, Variant]:
    """The variants of a snapshot by namespace and name."""
    recording = recorded(files, SETTINGS + "models: [{id: meta-llama/Llama-3.1-8B-Instruct, accelerator: choose}]\n")
    declaration = read_declaration(recording.manifests, (), recording.settings, files)
    return {each.key.label: each for each in read_snapshot(recording, declaration, "").variants}


def measures(variant: Variant) -> list[str]:
    """The accelerators on which it has a profile."""
    return [each.accelerator for each in variant.options]


def test_what_was_measured_is_of_the_same_model_in_the_same_place() -> None:
    """Another namespace has other engines, other requests and other nodes."""
    text = write_measured(a_measurement())
    found = joined(
        {
            "a.yaml": annotated("chat", node=A100),
            "b.yaml": annotated("chat-canary-h100", canary="H100", measured=text),
            "c.yaml": annotated("other", space="batch"),
        }
    )
    canary = found["llm/chat-canary-h100"]
    assert (measures(canary), canary.model.role, canary.hold) == (["H100"], "", None)
    assert (measures(found["batch/other"]), found["batch/other"].hold) == ([], None)
    assert found["llm/chat"].model == canary.model


def test_of_several_that_measured_the_same_the_slowest_counts() -> None:
    text = write_measured(a_measurement())
    alpha = text.split("alpha ")[1].split(" ")[0]
    slower = text.replace(f"alpha {alpha}", f"alpha {float(alpha) * 1.5:.5g}")
    for texts in ((text, slower), (slower, text)):
        files = {
            f"{number}.yaml": annotated(f"canary-{number}", canary="H100", measured=each)
            for number, each in enumerate(texts)
        }
        for variant in joined(files).values():
            (option,) = variant.options
            assert option.profile.alpha_s == pytest.approx(float(alpha) * 1.5e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("annotations", "node", "words"),
    [
        ({"canary": "H100"}, A100, "reconciler.io/canary says that it tries H100, and it runs on A100"),
        ({"canary": "nonsense"}, H100, "reconciler.io/canary says that it tries nonsense, and it runs on H100"),
        ({}, H100, "reconciler.io/measured without reconciler.io/canary"),
    ],
)
def test_what_was_measured_on_another_accelerator_is_not_believed(
    annotations: Mapping[str, str], node: str, words: str
) -> None:
    (variant,) = joined(
        {"a.yaml": annotated("canary", node=node, measured=write_measured(a_measurement()), **annotations)}
    ).values()
    assert variant.hold is not None
    assert words in variant.hold.words
    assert (variant.hold.place is not None, measures(variant)) == (True, [])


WRONG = [
    ("alpha ", "alpha -", "expected a number from 0 to a billion, not -"),
    ("alpha ", "alpha 9e999", "expected a number"),
    ("alpha ", "alpha e", "expected a number"),
    (" of 256", " of 99999999", "expected what reconciler wrote"),
    (" of 256", " of 8", "expected it to be sure to 1 to 8 requests"),
    ("hours", "days", "expected what reconciler wrote"),
    ("2027-01-15", "2027-13-45", "expected a day of the calendar, not 2027-13-45"),
    ("30 hours", "23 hours", "expected 24 to 169 hours, not 23"),
    ("30 hours", "9999 hours", "expected 24 to 169 hours, not 9999"),
    ("tokens 1000 to 1000", "tokens 1000 to 10", "expected the smaller number first, above 0, not 1000 to 10"),
    ("batches 20 to 20", "batches 0 to 20", "expected the smaller number first"),
    ("error ", "error 1e500", "expected a number"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_text_that_somebody_changed_holds_its_variant(old: str, new: str, words: str) -> None:
    text = write_measured(a_measurement())
    assert old in text
    changed = text.replace(old, new, 1)
    (variant,) = joined({"a.yaml": annotated("canary", canary="H100", measured=changed)}).values()
    assert variant.hold is not None
    assert f"annotation reconciler.io/measured: {words}" in variant.hold.words
    assert variant.hold.place is not None
    assert (str(variant.hold.place), variant.options) == ("a.yaml:3", ())


def test_another_measurement_is_no_reason_to_write_again() -> None:
    """An open pull request is not pushed anew each run for numbers that moved a little."""
    body = f'metadata:\n  name: a\n  annotations:\n    reconciler.io/measured: "{write_measured(a_measurement())}"\n'
    other = body.replace("30 hours", "31 hours").replace("alpha ", "alpha 1")
    assert says_the_same("a.yaml", body.encode(), other.encode())
    assert not says_the_same("a.yaml", body.encode(), other.replace("name: a", "name: b").encode())
