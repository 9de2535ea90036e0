"""What a repository's clusters get, rendered by the real tools: kubectl or kustomize, and Helm for charts.

Flux and Argo CD are followed as they work: what they say is written into the kustomization that they build, Flux fills
in its variables afterwards, and a release gets the values that are told. Nothing here knows how we build.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml

Fields = dict[str, Any]
Name = tuple[str, str, str, str]
"""Root, kind, namespace and name."""

KUSTOMIZATION = "kustomization.yaml"
CHART = "Chart.yaml"
TOOLS = (("kustomize", ["kustomize", "build"]), ("kubectl", ["kubectl", "kustomize"]))
_FLUX, _ARGO, _HELM = "kustomize.toolkit.fluxcd.io", "argoproj.io", "helm.toolkit.fluxcd.io"
_VARIABLE = re.compile(r"\$\{(\w+)(?::?[-=]([^}]*))?\}")
_TIMEOUT_S = 60


def find_tool() -> list[str]:
    """The command that renders a kustomization; empty when none is installed."""
    return next((command for name, command in TOOLS if shutil.which(name)), [])


def has_helm() -> bool:
    """Whether charts can be rendered."""
    return shutil.which("helm") is not None


def render(folder: Path, files: Mapping[str, bytes], charts: Mapping[str, bytes] | None = None) -> dict[Name, Fields]:
    """Every object of every root; `charts` are files of charts that a registry holds, by the name of the chart."""
    for path, body in {**files, **(charts or {})}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)
    return _Rendering(folder=folder, files=files).run()


@dataclass(slots=True, kw_only=True)
class _Rendering:
    folder: Path
    files: Mapping[str, bytes]
    objects: dict[Name, Fields] = field(default_factory=dict)
    followed: set[tuple[str, str]] = field(default_factory=set)
    numbers: "count[int]" = field(default_factory=count)

    def run(self) -> dict[Name, Fields]:
        entered, named = self._used()
        deployed = set(self._deployed())
        roots = [
            path.rpartition("/")[0]
            for path, body in self.files.items()
            if path.endswith(KUSTOMIZATION) and b"kind: Component" not in body
        ]
        free = [each for each in sorted(roots) if each not in entered and each not in deployed]
        with ThreadPoolExecutor(2) as threads:
            for root, made in zip(free, threads.map(self._build, free), strict=True):
                self._keep(root, made)
        for path in sorted(self.files):
            directory = path.rpartition("/")[0]
            if path.endswith(".yaml") and path not in named and not self._is_below(directory, [*deployed, *roots]):
                self._keep(path, self._documents(self.files[path].decode("utf-8-sig")))
        return self.objects

    def _used(self) -> tuple[set[str], set[str]]:
        """The directories that kustomizations enter, and the files that they name."""
        directories, named = set(), set()
        for path, body in self.files.items():
            if not path.endswith(KUSTOMIZATION):
                continue
            named.add(path)
            for text in re.findall(r"[\w./-]+", body.decode()):
                target = self._resolve(path.rpartition("/")[0], text)
                directories.update({target} & self._directories())
                named.update({target} & self.files.keys())
        return directories, named

    def _directories(self) -> set[str]:
        return {path.rpartition("/")[0] for path in self.files if path.endswith(KUSTOMIZATION)}

    def _resolve(self, directory: str, text: str) -> str:
        target = (self.folder / directory / text).resolve()
        return target.relative_to(self.folder).as_posix() if target.is_relative_to(self.folder) else ""

    def _is_below(self, directory: str, others: Iterable[str]) -> bool:
        charts = (path.rpartition("/")[0] for path in self.files if path.endswith(CHART))
        return any(f"{directory}/".startswith(f"{other}/") for other in (*others, *charts) if other)

    def _deployed(self) -> Iterator[str]:
        """The directories of which deployers speak, as far as they stand in files."""
        for path, body in self.files.items():
            for found in re.findall(rb"(?m)\bpath: *[\"']?(?:\./)?([\w./-]+)", body) if path.endswith(".yaml") else ():
                if not path.endswith(KUSTOMIZATION):
                    yield found.decode().rstrip("/")

    def _documents(self, text: str) -> list[Fields]:
        found = [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
        return [
            item for each in found for item in (each["items"] if str(each.get("kind")).endswith("List") else [each])
        ]

    def _build(self, root: str) -> list[Fields]:
        result = subprocess.run(
            [*find_tool(), str(self.folder / root)], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        assert result.returncode == 0, f"{root}: {result.stderr}"
        return self._documents(result.stdout)

    def _keep(self, root: str, made: Iterable[Fields]) -> None:
        made = list(made)
        for each in made:
            names = each.get("metadata", {})
            self.objects[root, each["kind"], names.get("namespace", ""), names["name"]] = each
        for each in made:
            group = str(each.get("apiVersion")).partition("/")[0]
            if (group, each["kind"]) == (_FLUX, "Kustomization"):
                self._follow_flux(each)
            elif (group, each["kind"]) == (_ARGO, "Application"):
                self._follow_argo(each)
            elif (group, each["kind"]) == (_ARGO, "ApplicationSet"):
                self._follow_set(each)
            elif group == _HELM:
                self._release(each, made)

    def _is_new(self, kind: str, each: Fields) -> bool:
        key = kind, f"{each['metadata'].get('namespace')}/{each['metadata']['name']}"
        is_new = key not in self.followed
        self.followed.add(key)
        return is_new

    def _follow_flux(self, each: Fields) -> None:
        spec = each["spec"]
        directory = spec["path"].removeprefix("./").rstrip("/")
        if not self._is_new("flux", each):
            return
        rules = {"namespace": spec.get("targetNamespace"), "namePrefix": spec.get("namePrefix")}
        rules |= {"nameSuffix": spec.get("nameSuffix"), "patches": spec.get("patches")}
        rules |= {"components": [self._resolve(directory, path) for path in spec.get("components", ())]}
        if f"{directory}/{KUSTOMIZATION}" not in self.files:
            listed = [path for path in self.files if path.startswith(f"{directory}/") and path.endswith(".yaml")]
            made = self._overlay(listed, rules)
        else:
            made = self._overlay([directory], rules)
        post_build = spec.get("postBuild")
        text = json.dumps(made)
        if post_build:
            values = {key: str(value) for key, value in (post_build.get("substitute") or {}).items()}
            text = _VARIABLE.sub(lambda found: values.get(found[1], found[2] or ""), text)
        self._keep(f"flux {each['metadata']['name']}", json.loads(text))

    def _overlay(self, listed: list[str], rules: Fields) -> list[Fields]:
        """What is built with a deployer's rules, written into a kustomization beside the repository's own."""
        number = next(self.numbers)
        paths = [f"../../{path}" for path in listed]
        files = [path for path in paths if path.endswith(".yaml")]
        place = self.folder / ".deployed" / str(number)
        place.mkdir(parents=True)
        for index, path in enumerate(files):
            (place / f"{index}.yaml").write_bytes((place / path).read_bytes())
        own = {key: value for key, value in rules.items() if value}
        own["components"] = [f"../../{path}" for path in own.get("components", ())]
        own["resources"] = [*(path for path in paths if path not in files), *(f"{n}.yaml" for n in range(len(files)))]
        (place / KUSTOMIZATION).write_text(json.dumps(own))
        return self._build(f".deployed/{number}")

    def _follow_argo(self, each: Fields) -> None:
        if not self._is_new("argo", each):
            return
        spec = each["spec"]
        namespace = spec["destination"].get("namespace", "")
        for source in spec.get("sources") or [spec["source"]]:
            path = source.get("path", "").strip("/")
            if not path:
                continue
            if f"{path}/{CHART}" in self.files:
                self._keep(f"argo {each['metadata']['name']}", self._argo_chart(each, source, path))
                continue
            own = {**self._override(each, path, "kustomize"), **source.get("kustomize", {})}
            if f"{path}/{KUSTOMIZATION}" in self.files:
                made = self._overlay([path], own)
            else:
                is_deep = source.get("directory", {}).get("recurse", False)
                below = (each for each in self.files if each.startswith(f"{path}/") and each.endswith(".yaml"))
                listed = [each for each in below if is_deep or "/" not in each.removeprefix(f"{path}/")]
                made = [object_ for each in listed for object_ in self._documents(self.files[each].decode())]
            for object_ in made:
                object_["metadata"].setdefault("namespace", namespace)
            self._keep(f"argo {each['metadata']['name']}", made)

    def _override(self, each: Fields, path: str, section: str) -> Fields:
        body = self.files.get(f"{path}/.argocd-source-{each['metadata']['name']}.yaml")
        found: Fields = (yaml.safe_load(body) if body else {}).get(section, {})
        return found

    def _follow_set(self, each: Fields) -> None:
        spec = each["spec"]
        for generator in spec["generators"]:
            found = [dict(element) for element in generator.get("list", {}).get("elements", ())]
            for pattern in generator.get("git", {}).get("directories", ()):
                prefix = pattern["path"].removesuffix("*")
                names = sorted(
                    {path[len(prefix) :].partition("/")[0] for path in self.files if path.startswith(prefix)}
                )
                found += [{"path": prefix + name, "path.basename": name} for name in names]
            for values in found:
                made = json.loads(_fill(json.dumps(spec["template"]), values))
                self._keep("set", [{"apiVersion": f"{_ARGO}/v1alpha1", "kind": "Application", **made}])

    def _argo_chart(self, each: Fields, source: Fields, path: str) -> list[Fields]:
        helm = source.get("helm", {})
        words = [word for file in helm.get("valueFiles", ()) for word in ("-f", str(self.folder / path / file))]
        for text in filter(None, (helm.get("values"), json.dumps(helm.get("valuesObject") or {}))):
            words += ["-f", str(self._write(text))]
        words += [
            word for entry in helm.get("parameters", ()) for word in ("--set", f"{entry['name']}={entry['value']}")
        ]
        namespace = each["spec"]["destination"].get("namespace", "")
        return self._template(helm.get("releaseName") or each["metadata"]["name"], namespace, path, words)

    def _release(self, each: Fields, beside: list[Fields]) -> None:
        spec, names = each["spec"], each["metadata"]
        words: list[str] = []
        for entry in spec.get("valuesFrom", ()):
            maps = [other for other in beside if other["kind"] == "ConfigMap"]
            (found,) = (other for other in maps if other["metadata"]["name"] == entry["name"])
            words += ["-f", str(self._write(found["data"][entry.get("valuesKey", "values.yaml")]))]
        words += ["-f", str(self._write(json.dumps(spec.get("values", {}))))]
        chart = spec["chart"]["spec"]["chart"].removeprefix("./")
        path = chart if f"{chart}/{CHART}" in self.files else f".charts/{chart}"
        made = self._template(spec.get("releaseName") or names["name"], names["namespace"], path, words)
        self._keep(f"helm {names['name']}", made)

    def _template(self, name: str, namespace: str, path: str, words: list[str]) -> list[Fields]:
        result = subprocess.run(
            ["helm", "template", name, str(self.folder / path), "--namespace", namespace, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        assert result.returncode == 0, result.stderr
        return self._documents(result.stdout)

    def _write(self, text: str) -> Path:
        place = self.folder / ".deployed" / f"values-{next(self.numbers)}.yaml"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        return place


def _fill(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{\{([\w.]+)\}\}", lambda found: str(values.get(found[1], found[0])), text)
