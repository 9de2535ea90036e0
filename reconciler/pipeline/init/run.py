"""Init: looks, infers, asks, writes what nobody has written yet, and plans for the first time."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.config.environment import Environment, Flags
from reconciler.config.files import REPOSITORY_FILE
from reconciler.config.loading import DEFAULT_CLUSTER
from reconciler.domain.settings import ClusterSettings, Settings
from reconciler.errors import ConfigurationError
from reconciler.git.repository import open_directory, origin_url
from reconciler.metrics.answers import clusters_seen
from reconciler.pipeline.init.clusters import InferredCluster, infer_clusters
from reconciler.pipeline.init.configuration import ConfigurationView, complete_view, draft_view
from reconciler.pipeline.init.generated import Fate, GeneratedFile
from reconciler.pipeline.init.jobs import Wishes, job_files
from reconciler.pipeline.init.looking import FoundFiles, look
from reconciler.pipeline.observe import read_files
from reconciler.pipeline.run import Prepared, plan
from reconciler.pipeline.session import Progress, no_progress, open_session
from reconciler.pipeline.work_tree import find_work_tree, read_content
from reconciler.rendering.renderer import Renderer

TEMPLATE = "init/reconciler.yaml.j2"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """What somebody asked of init; with `checks` nothing is written."""

    flags: Flags
    environment: Environment
    wishes: Wishes
    now_s: float
    checks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InitResult:
    """What was found, what became of each file (or would), and the first plan.

    `clusters` are empty where a configuration says already which there are.
    """

    found: FoundFiles
    prepared: Prepared
    files: tuple[tuple[GeneratedFile, Fate], ...]
    clusters: tuple[InferredCluster, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether any cluster has a Prometheus to ask."""
        return any(each.prometheus is not None for each in self.prepared.recording.settings.clusters)

    @property
    def changes(self) -> bool:
        """Whether any file is written, or would be."""
        return any(fate in (Fate.CREATED, Fate.UPDATED) for _, fate in self.files)


def init(request: InitRequest, progress: Progress = no_progress) -> InitResult:
    """Look, infer, write and plan; ConfigurationError for a repository without a work tree or a first commit."""
    request.wishes.check()
    root = find_work_tree(request.flags.repo, "init")
    remote = origin_url(root) or ""
    repository = open_directory(root, base=request.flags.base or None)
    listed = read_files(repository, Settings(clusters=(ClusterSettings(name=DEFAULT_CLUSTER),)), remote)
    found = look({each.path: each.body for each in listed.commit.manifests}, remote)
    found = replace(found, paths=listed.paths)
    clusters = () if _is_configured(root) else infer_clusters(found, _only(request.flags.clusters))
    renderer = Renderer()
    draft, prepared = _plan(request, root, clusters, renderer, progress)
    files = []
    if draft is not None:
        text = renderer.render(TEMPLATE, complete_view(draft, prepared.snapshot))
        files.append(GeneratedFile(path=REPOSITORY_FILE, text=text, is_started=True))
    settings = prepared.recording.settings
    urls = tuple(each.prometheus.url for each in settings.clusters if each.prometheus is not None)
    branch = settings.git.base_branch or repository.branch
    files += job_files(request.wishes, renderer, found, remote=remote, branch=branch, urls=urls)
    fates = [(each, each.fate_in(root)) for each in files]  # all are looked at before the first is written
    if not request.checks:
        fates = [(each, each.write(root)) for each in files]
    return InitResult(found=found, prepared=prepared, files=tuple(fates), clusters=clusters)


def _is_configured(root: Path) -> bool:
    return read_content(root, REPOSITORY_FILE) is not None


def _only(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ""


def _plan(
    request: InitRequest, root: Path, clusters: tuple[InferredCluster, ...], renderer: Renderer, progress: Progress
) -> tuple[ConfigurationView | None, Prepared]:
    """The plan by the configuration that is there, else by what can be inferred without asking."""
    if not clusters:
        return None, _plan_by(request, _with_uncommitted(request.flags, root), progress)
    url = request.flags.prometheus
    has_token = request.environment.prometheus_token is not None
    draft = draft_view(clusters, url, has_token=has_token)
    prepared = _plan_draft(request, draft, renderer, progress)
    seen = tuple(filter(None, clusters_seen(prepared.recording.answers)))
    if len(seen) > 1:
        unknown = [each.name for each in clusters if each.name not in seen]
        if unknown:
            raise ConfigurationError(
                f"this Prometheus holds several clusters ({', '.join(seen)}), and none of them is called "
                f"{unknown[0]}: name yours with --cluster"
            )
        draft = draft_view(clusters, url, has_token=has_token, labels=seen)
        prepared = _plan_draft(request, draft, renderer, progress)
    return draft, prepared


def _with_uncommitted(flags: Flags, root: Path) -> Flags:
    """A configuration that is not committed yet counts all the same: whoever runs init wrote it just now."""
    repository = open_directory(root, base=flags.base or None)
    if repository.read_file_at(repository.commit, REPOSITORY_FILE) is not None:
        return flags
    return replace(flags, config_files=(root / REPOSITORY_FILE, *flags.config_files))


def _plan_draft(request: InitRequest, draft: ConfigurationView, renderer: Renderer, progress: Progress) -> Prepared:
    flags = request.flags
    is_several = len(draft.clusters) > 1
    with _operator_file(renderer.render(TEMPLATE, draft)) as file:
        flags = replace(flags, config_files=(file, *flags.config_files))
        return _plan_by(request, replace(flags, prometheus="" if is_several else flags.prometheus), progress)


@contextmanager
def _operator_file(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="reconciler-") as directory:
        file = Path(directory) / REPOSITORY_FILE
        file.write_text(text, encoding="utf-8")
        yield file


def _plan_by(request: InitRequest, flags: Flags, progress: Progress) -> Prepared:
    with open_session(flags, request.environment, writes=False, with_forge=False, progress=progress) as session:
        return plan(session.doors, session.settings, request.now_s, repository=session.repository)
