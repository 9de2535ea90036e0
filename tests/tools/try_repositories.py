"""Checked-out repositories of others, adopted: what is recognised in them, and what an edit of each number renders to.

    python -m tests.tools.try_repositories FOLDER [FOLDER...] [--charts FOLDER...] [--unseen]

Each FOLDER is a clone with a work tree; nothing in it is changed. `init --adopt` runs in a copy as somebody types it.
Then every serving workload is managed, wherever nothing holds it its number (or the bounds of its autoscaler) is
written, and kubectl's Kustomize and Helm render the repository before and after: only the wanted numbers may differ.
Helm charts of the folders are rendered with each file of values that is theirs, under an Application that stands in
the copy alone. `--unseen` lists what looks like a model server and is not recognised.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import load_settings
from reconciler.domain.identity import ResourceKey
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Variant
from reconciler.git.repository import Repository, open_directory
from reconciler.manifests.edits import EditRefused
from reconciler.pipeline.files import read_files
from reconciler.resources.charts import charts
from reconciler.resources.declaration import Declaration
from reconciler.resources.kubernetes.engines import find_engine
from reconciler.snapshot.adoption import find_left
from reconciler.snapshot.declarations import Commit, fold
from reconciler.snapshot.variants import declared_variants
from tests.tools.sample_clusters import Sample, write_counts

TOOLS = Path(__file__).parents[2] / ".tools" / "bin"
KUBECTL = shutil.which("kubectl") or str(TOOLS / "kubectl")
HELM = shutil.which("helm") or str(TOOLS / "helm")
TIMEOUT_S = 60
OFFLINE = {
    **os.environ,
    "GIT_ALLOW_PROTOCOL": "file",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
}
"""What remote bases name fails at once."""
ROUNDS = 10
"""Of alternatives, each of which is a cluster of its own for a round."""
COUNTS = frozenset(
    {"replicas", "minReplicas", "maxReplicas", "minReplicaCount", "maxReplicaCount", "replicaCount", "count"}
)
HINT = re.compile(
    r"vllm|sglang|text-generation|tritonserver|trtllm|nvcr\.io/nim|ollama|llama[.-]?cpp|lmdeploy|served-model-name"
)
Known: TypeAlias = tuple[Repository, Commit]
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
REMOTE = re.compile(rb"://|github\.com|\?ref=")
CONFIGURATION = """\
apiVersion: reconciler.io/v1alpha1
kind: Configuration
clusters: [{name: all, paths: {include: [PATHS]}, prometheus: {url: "http://127.0.0.1:9"}}]
workloads: [{match: {kind: "*"}, whenAutoscaled: bounds}]
status: "off"
policies: []
"""
APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: values-NUMBER, namespace: argocd}
spec:
  destination: {name: in-cluster, namespace: values-NUMBER}
  source:
    chart: CHART
    repoURL: https://charts.example
    targetRevision: "1"
    helm:
      values: |
"""


@dataclass(slots=True, kw_only=True)
class Row:
    """What was found in one repository."""

    name: str
    commit: str = ""
    adopted: int = 0
    left: int = 0
    serving: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    edited: int = 0
    rendered: int = 0
    crashes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    unseen: list[str] = field(default_factory=list)


def try_repository(folder: Path, charts_by_name: Mapping[str, Path]) -> Row:
    """Adopt a copy of one repository, and change every number in it."""
    row = Row(name=folder.name.replace("+", "/"))
    with tempfile.TemporaryDirectory(prefix="try-") as scratch:
        copy = Path(scratch) / "copy"
        _git(Path(scratch), "clone", "-q", "--no-hardlinks", str(folder), str(copy))
        row.commit = _git(copy, "rev-parse", "HEAD").strip()[:8]
        _adopt(copy, row)
        _git(copy, "clean", "-qfd")
        _git(copy, "checkout", "-q", "--", ".")
        _wrap_values(copy, charts_by_name)
        _change(copy, Path(scratch) / "after", row, charts_by_name)
    return row


def _git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=tools", "-c", "user.email=tools@localhost", "-c", "core.autocrlf=false")
    command = ["git", *own, "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _adopt(copy: Path, row: Row) -> None:
    """`init --adopt`, for one of the clusters where it asks which."""
    done = _typed(copy, "init", "--adopt")
    asked = re.search(r"name it with --cluster, like --cluster (\S+)", done.stderr)
    if done.returncode and asked:
        done = _typed(copy, "init", "--adopt", "--cluster", asked[1].rstrip("."))
    if "Traceback" in done.stderr or done.returncode not in (0, 2, 3, 5):
        row.crashes.append(f"init: {done.returncode} {done.stderr[-500:]}")
    elif done.returncode:
        row.crashes.append(f"init refuses: {done.stderr.strip()[:300]}")
    row.left = done.stdout.count("\nnot managed: ")
    written = copy / "reconciler.yaml"
    if written.exists():
        row.adopted = len(yaml.safe_load(written.read_text()).get("workloads") or ())


def _typed(copy: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "reconciler", *arguments]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=600)


def _wrap_values(copy: Path, charts_by_name: Mapping[str, Path]) -> None:
    """An Application of Argo CD for each file of values of a known chart: nothing else says what they are."""
    wrapped = 0
    for path in sorted(copy.rglob("*.yaml")):
        name = _chart_of(path)
        if name not in charts_by_name or (path.parent / "Chart.yaml").exists():
            continue
        wrapped += 1
        text = APPLICATION.replace("NUMBER", str(wrapped)).replace("CHART", name)
        values = "".join(f"        {line}\n" if line.strip() else "\n" for line in path.read_text().splitlines())
        (copy / f".try-values-{wrapped}.yaml").write_text(text + values)
    if wrapped:
        _git(copy, "add", "-fA", ".")
        _git(copy, "commit", "-qm", "Applications of the values")


def _chart_of(path: Path) -> str:
    body = path.read_bytes() if path.is_file() else b""
    if b"servingEngineSpec:" not in body and b"modelArtifacts:" not in body:
        return ""
    values = next(iter(_documents(body)), {})
    specs = values.get("servingEngineSpec")
    if isinstance(specs, dict) and specs.get("modelSpec"):
        return "vllm-stack"
    has_halves = {"decode", "prefill"} & values.keys()
    return "llm-d-modelservice" if "modelArtifacts" in values and has_halves else ""


def _documents(body: bytes) -> list[dict[str, Any]]:
    """The objects of a file, none where it is no YAML."""
    try:
        return [each for each in yaml.load_all(body, Loader=yaml.CSafeLoader) if isinstance(each, dict)]
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        return []


def _change(copy: Path, after: Path, row: Row, charts_by_name: Mapping[str, Path]) -> None:
    shutil.copytree(copy, after, ignore=shutil.ignore_patterns(".git"), symlinks=True)
    files = {path: (copy / path).read_bytes() for path in _listed(copy)}
    seen: set[str] = set()
    rounds: list[tuple[str, ...]] = [("**",)]
    known: Known | None = None
    for number, paths in enumerate(rounds):
        try:
            settings, declaration, known = _declare(copy, paths, known)
            variants = declared_variants(settings, declaration)
            left = find_left(settings, declaration, set())
        except Exception as error:  # noqa: BLE001 - crashes are what is looked for
            row.crashes.append(f"{paths}: {error!r}")
            continue
        if number == 0:
            rounds += _alternatives(declaration)
            listed = {(each.key.kind, each.key.name) for found in (left, declaration.broken) for each in found}
            idle = {(each.key.kind, each.key.name) for each in declaration.workloads if each.engine} - listed
            said = {each.place.path: each.message for each in declaration.findings}
            for words, path, known_reason in _unseen(files, listed, idle):
                reason = known_reason or _generalised(said.get(path, ""))
                row.explained.update([reason])
                row.unseen += [] if reason else [words]
            row.serving.update(each.key.kind for each in left)
        wanted = {}
        for variant in variants:
            if variant.workload is None or not variant.workload.is_serving:
                continue
            if variant.holds:
                row.held.update(() if number else [_generalised(variant.holds[0].words)])
            elif variant.document.path not in seen or number == 0:
                wanted[variant.key] = (variant, variant.current.replicas + 1)
        if not wanted:
            continue
        seen |= {each.document.path for each, _ in wanted.values()}
        try:
            for key in [each for each in wanted if (words := _refusal(files, wanted[each]))]:
                row.held.update([_generalised(words)])
                del wanted[key]
            sample = write_counts(files, wanted)
        except Exception as error:  # noqa: BLE001 - crashes are what is looked for
            row.crashes.append(f"{paths}: edits: {error!r}")
            continue
        _compare(copy, after, sample, row, charts_by_name)


def _refusal(files: Mapping[str, bytes], wanted: tuple[Variant, int]) -> str:
    """Why a number cannot be written, which holds a variant when it is drafted."""
    try:
        write_counts(files, {wanted[0].key: wanted})
    except EditRefused as error:
        return str(error)
    return ""


def _listed(copy: Path) -> list[str]:
    return [each for each in _git(copy, "ls-files", "-z").split("\0") if each and (copy / each).is_file()]


def _declare(copy: Path, paths: Iterable[str], known: Known | None) -> tuple[Settings, Declaration, Known]:
    text = CONFIGURATION.replace("PATHS", ", ".join(f'"{each}"' for each in paths))
    settings = load_settings(
        repository_file=text.encode(),
        read_repository_file=lambda _path: None,
        flags=Flags(),
        environment=Environment(),
    ).settings
    repository = open_directory(copy)
    commit = read_files(repository, settings, "", known=known).commit
    return settings, fold(commit, settings), (repository, commit)


def _alternatives(declaration: Declaration) -> list[tuple[str, ...]]:
    """Of what is written twice, each directory by itself."""
    found = {each.document.path.rpartition("/")[0] for each in declaration.alternatives if each.is_serving}
    rounds: list[tuple[str, ...]] = [(f"{each}/**",) for each in sorted(found)]
    return rounds[:ROUNDS]


def _generalised(words: str) -> str:
    return re.sub(r"\S*[/\"]\S*|\d+", "...", words)[:110]


def _unseen(
    files: Mapping[str, bytes], listed: Container[tuple[str, str]], idle: Container[tuple[str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Objects that look like a model server and are not listed, each with its file and the reason, if it is known."""
    charts_at = {path.rpartition("/")[0] for path in files if path.endswith("Chart.yaml")}
    patches = {path for root in _roots(files) for path in _reached(root, files)}
    for path, body in files.items():
        if not path.endswith((".yaml", ".yml")) or not HINT.search(body.decode(errors="replace")):
            continue
        for each in _documents(body):
            kind, metadata = str(each.get("kind")), each.get("metadata")
            name = str(metadata.get("name")) if isinstance(metadata, dict) else ""
            if "apiVersion" not in each or not HINT.search(str(each.get("spec"))) or (kind, name) in listed:
                continue
            reason = REASONS.get(kind, ROUTES)
            if kind in PLAIN:
                images = list(_images(each))
                is_engine = any(find_engine(image, words) for image, words in images)
                is_below = any(f"{path}/".startswith(f"{root}/") for root in charts_at if root)
                reason = "" if is_engine else "it runs no engine"
                reason = reason if all(image for image, _ in images) else "it is a patch without an image"
                reason = "a patch of a kustomization" if path in patches else reason
                reason = "a file of a chart" if is_below else reason
            reason = "it names no model and asks for no device" if (kind, name) in idle else reason
            yield f"{kind} {name} ({path})", path, reason


PLAIN = frozenset({"Deployment", "StatefulSet", "LeaderWorkerSet"})
NO_NUMBER, TEMPLATE = "no number of replicas", "a template for others"
ROUTES, NOT_READ = "routes, watches or configures", "a kind that is not read"
REASONS = {
    **dict.fromkeys(("Pod", "Job", "JobSet", "RayJob", "CronJob", "DaemonSet", "Task", "PipelineRun"), NO_NUMBER),
    **dict.fromkeys(("ServingRuntime", "ClusterServingRuntime", "LLMInferenceServiceConfig"), TEMPLATE),
    **dict.fromkeys(("RayCluster", "RayClusterFleet", "RoleSet", "ModelServing", "VLLMRuntime", "Model"), NOT_READ),
    **dict.fromkeys(("NIMPipeline", "ModelClaim", "HelmRelease", "Application", "InferenceService"), NOT_READ),
    "RayService": "an application of its own, not one of ray.serve.llm",
    "StormService": "", "LLMInferenceService": "", "DynamoGraphDeployment": "", "NIMService": "", "Workspace": "",
}  # fmt: skip
"""Why an object of a kind is none that could be scaled; all other kinds serve no model."""


def _images(source: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The image and the words of each container of a workload."""
    left: list[Any] = [source.get("spec")]
    while left:
        value = left.pop()
        containers = value.get("containers") if isinstance(value, dict) else None
        for each in containers if isinstance(containers, list) else ():
            if isinstance(each, dict):
                words = [*(each.get("command") or ()), *(each.get("args") or ())]
                yield str(each.get("image") or ""), [str(word) for word in words]
        left += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    key: ResourceKey
    count: int
    names: frozenset[str]
    """The object itself, what is made of it, and what scales it."""


def _compare(copy: Path, after: Path, sample: Sample, row: Row, charts_by_name: Mapping[str, Path]) -> None:
    """Write what was edited, render both, and put everything back."""
    changed = {path: body for path, body in sample.after.items() if sample.before.get(path) != body}
    for path, body in changed.items():
        (after / path).parent.mkdir(parents=True, exist_ok=True)
        (after / path).write_bytes(body)
    row.edited += len(sample.changed)
    seen: set[ResourceKey] = set()
    for place, before, now in _renderings(copy, after, changed, sample.before, charts_by_name):
        row.rendered += 1
        for words, keys in _judge(before, now, sample):
            seen |= keys
            if words:
                row.wrong.append(f"{place}: {words}")
    row.wrong += [f"{key} never shows {sample.changed[key]}" for key in sample.changed.keys() - seen]
    for path in changed:
        if path in sample.before:
            (after / path).write_bytes(sample.before[path])
        else:
            (after / path).unlink()


Rendered = tuple[str, list[dict[str, Any]], list[dict[str, Any]]]


def _renderings(
    copy: Path,
    after: Path,
    changed: Mapping[str, bytes],
    before: Mapping[str, bytes],
    charts_by_name: Mapping[str, Path],
) -> Iterator[Rendered]:
    for path, body in changed.items():
        old, new = _documents(before.get(path, b"")), _documents(body)
        if path in before and path.endswith((".yaml", ".yml")) and path.rpartition("/")[2] not in KUSTOMIZATIONS:
            yield path, old, new
    roots = [root for root in _roots(before) if _reached(root, before) & changed.keys()]
    with ThreadPoolExecutor(2) as threads:
        olds = threads.map(lambda root: _kustomize(copy / root), roots)
        news = threads.map(lambda root: _kustomize(after / root), roots)
        for root, first, second in zip(roots, olds, news, strict=True):
            if first is not None:
                yield f"kustomize {root}", first, second or []
    for path, body in changed.items():
        for one, other in zip(_documents(before.get(path, b"")), _documents(body), strict=False):
            for made, again in zip(_charted(one, charts_by_name), _charted(other, charts_by_name), strict=True):
                if made is not None:
                    yield f"helm {path}", made, again or []


def _roots(files: Mapping[str, bytes]) -> Iterator[str]:
    for path, body in sorted(files.items()):
        is_whole = b"kind: Component" not in body and not REMOTE.search(body.replace(b"yaml-language-server", b""))
        if path.rpartition("/")[2] in KUSTOMIZATIONS and is_whole:
            yield path.rpartition("/")[0]


def _reached(root: str, files: Mapping[str, bytes]) -> set[str]:
    """The files that a kustomization names, directly or not."""
    found: set[str] = set()
    left = [root]
    for directory in left:
        own = next((path for name in KUSTOMIZATIONS if (path := f"{directory}/{name}".lstrip("/")) in files), None)
        if own is None or own in found:
            continue
        found.add(own)
        for word in re.findall(r"[\w./-]+", files[own].decode(errors="replace")):
            path = os.path.normpath(f"{directory}/{word}".lstrip("/"))
            found |= {path} & files.keys()
            left += [] if path in files else [path]
    return found


def _kustomize(folder: Path) -> list[dict[str, Any]] | None:
    command = [KUBECTL, "kustomize", str(folder)]
    try:
        done = subprocess.run(command, env=OFFLINE, capture_output=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None
    return _documents(done.stdout) if done.returncode == 0 else None


def _charted(source: dict[str, Any], charts_by_name: Mapping[str, Path]) -> Iterator[list[dict[str, Any]] | None]:
    """What Helm makes of an Application or a HelmRelease of a chart that lies in one of the folders."""
    spec, name = source.get("spec"), (source.get("metadata") or {}).get("name")
    if not isinstance(spec, dict) or source.get("kind") not in ("Application", "HelmRelease"):
        return
    if source["kind"] == "HelmRelease":
        chart = ((spec.get("chart") or {}).get("spec") or {}).get("chart", "")
        values = yaml.safe_dump(spec.get("values") or {})
    else:
        inline = spec.get("source") or {}
        helm = inline.get("helm") or {}
        chart, values = inline.get("chart", ""), helm.get("values") or yaml.safe_dump(helm.get("valuesObject") or {})
    path = charts_by_name.get(chart)
    if path is None:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(values)
        file.flush()
        command = [HELM, "template", str(name), str(path), "-f", file.name]
        done = subprocess.run(command, capture_output=True, check=False, timeout=TIMEOUT_S)
    yield _documents(done.stdout) if done.returncode == 0 else None


def _judge(
    before: list[dict[str, Any]], now: list[dict[str, Any]], sample: Sample
) -> Iterator[tuple[str, set[ResourceKey]]]:
    """What differs: what is wrong with it in words, or the targets whose counts show."""
    if len(before) != len(now):
        yield f"{len(before)} objects became {len(now)}", set()
        return
    for old, new in zip(before, now, strict=True):
        for path, value in _differences(old, new):
            if path and path[-1] == "values" and isinstance(value, str):
                inner_old, inner_new = (yaml.safe_load(_at(each, path)) for each in (old, new))
                yield from (
                    (_words(inner, value), _keys(value, sample)) for inner, value in _differences(inner_old, inner_new)
                )
                continue
            counts = [segment for segment in path if segment in COUNTS]
            keys = {key for key in _keys(value, sample) if _is_of(old, key)} or _keys(value, sample)
            yield ("" if counts and keys else f"{old.get('kind')} {path}: {value!r}"), keys


def _words(path: tuple[Any, ...], value: Any) -> str:
    return "" if {*path} & COUNTS else f"{path}: {value!r}"


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for segment in path:
        value = value[segment]
    return value


def _keys(value: Any, sample: Sample) -> set[ResourceKey]:
    return {key for key, count in sample.changed.items() if value == count}


def _is_of(source: dict[str, Any], key: ResourceKey) -> bool:
    """Whether an object is a target, or names it."""
    names = source.get("metadata") or {}
    reference = (source.get("spec") or {}).get("scaleTargetRef") or {}
    return key.name in (names.get("name"), reference.get("name")) or key.name.startswith(f"{names.get('name')}/")


def _differences(before: Any, after: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            yield from _differences(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, (*path, index))
    elif before != after:
        yield path, after


def find_charts(folders: Iterable[Path]) -> dict[str, Path]:
    """The charts of which the shape is known, by name, that lie in one of the folders."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("Chart.yaml")):
            name = next(iter(_documents(path.read_bytes())), {}).get("name")
            if name in charts():
                found.setdefault(str(name), path.parent)
    return found


def main() -> None:
    """Print a row for each repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--charts", nargs="*", type=Path, default=[], help="more folders whose charts are known")
    parser.add_argument("--unseen", action="store_true")
    arguments = parser.parse_args()
    known = find_charts([*arguments.folders, *arguments.charts])
    print("| repository | at | serving | adopted | left | edited | renderings | wrong | crashes |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for folder in arguments.folders:
        row = try_repository(folder.resolve(), known)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(row.serving.items())) or "none"
        numbers = (row.adopted, row.left, row.edited, row.rendered, len(row.wrong), len(row.crashes))
        print(f"| {row.name} | {row.commit} | {kinds} | {' | '.join(map(str, numbers))} |", flush=True)
        for words in (*row.wrong, *row.crashes, *(row.unseen if arguments.unseen else ())):
            print(f"    {words}", file=sys.stderr, flush=True)
        for name, counts in (("held", row.held), ("not listed", row.explained)):
            for words, number in counts.most_common():
                print(f"    {name} {number}: {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
