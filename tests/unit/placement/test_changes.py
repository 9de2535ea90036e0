"""What another commit changes of charts that kustomizations render."""

from collections.abc import Callable

import pytest

from reconciler.placement.changes import changed_charts
from reconciler.placement.fleet import Fleet

Build = Callable[..., Fleet]
PATH = "app/kustomization.yaml"


def charts(*entries: str) -> str:
    return "helmCharts:\n" + "".join(f"- {{name: pool, repo: https://x, version: 1.0.0, {each}}}\n" for each in entries)


FILES = {"app/own.yaml": "port: 1\nsize: 1\n", "app/more.yaml": "port: 9\n"}


def told(build: Build, before: str, after: str) -> list[tuple[str, str, object, object, int | None]]:
    old, new = (build({PATH: text, **FILES}) for text in (before, after))
    found = list(changed_charts(old, new, "prod"))
    assert all(each.place.path == PATH for each in found)
    return [(each.release, each.name, each.before, each.after, each.place.line) for each in found]


@pytest.mark.parametrize(
    ("merge", "port", "size"),
    [
        ("", 2, 1),
        ("valuesMerge: override, ", 2, 1),
        ("valuesMerge: merge, ", 1, 1),
        ("valuesMerge: replace, ", 2, None),
        ("additionalValuesFiles: [more.yaml], ", 9, 1),
        ("valuesMerge: replace, additionalValuesFiles: [more.yaml], ", 9, None),
    ],
)
def test_values_are_merged_as_the_entry_says(build: Build, merge: str, port: int, size: int | None) -> None:
    after = charts(f"{merge}valuesFile: own.yaml, valuesInline: {{port: 2}}")
    values = {name: now for _, name, _, now, _ in told(build, charts(""), after)}
    assert (values["port"], values.get("size")) == (port, size)


def test_without_values_of_its_own_the_file_counts_whatever_the_entry_says(build: Build) -> None:
    after = charts("valuesMerge: replace, valuesFile: own.yaml")
    assert [name for _, name, *_ in told(build, charts(""), after)] == ["port", "size"]


def test_entries_of_one_name_are_charts_of_their_own(build: Build) -> None:
    before = charts("valuesInline: {port: 1}", "valuesInline: {port: 2}")
    after = charts("valuesInline: {port: 3}", "valuesInline: {port: 4}")
    assert told(build, before, after) == [
        (f"chart pool of {PATH}", "port", 1, 3, 2),
        (f"chart pool (2) of {PATH}", "port", 2, 4, 3),
    ]


def test_what_goes_has_a_place(build: Build) -> None:
    assert told(build, charts("valuesInline: {port: 1}"), charts("")) == [(f"chart pool of {PATH}", "port", 1, None, 2)]
    gone = told(build, charts("valuesInline: {port: 1}"), "resources: []\n")
    assert [(name, was, now) for _, name, was, now, _ in gone] == [
        ("chart", "pool", None),
        ("chart version", "1.0.0", None),
        ("repository of the chart", "https://x", None),
        ("port", 1, None),
    ]


def test_an_entry_that_cannot_be_read_changes_nothing_else(build: Build) -> None:
    assert told(build, "helmCharts: 3\n", "helmCharts: 4\n") == []
