"""Globs over paths of a repository."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.identity import matches_any, path_matches

SEGMENT = st.text(alphabet="ab.-_[](){}+^$|\\* ?", min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("**", "a", True),
        ("**", "a/b/c.yaml", True),
        ("**/*", "c.yaml", True),
        ("**/*.yaml", "c.yaml", True),
        ("**/*.yaml", "a/b/c.yaml", True),
        ("**/*.yaml", "a/b/c.yml", False),
        ("*", "a", True),
        ("*", "a/b", False),
        ("*.yaml", "a/b.yaml", False),
        ("clusters/*/dev/**", "clusters/us/dev/llm/a.yaml", True),
        ("clusters/*/dev/**", "clusters/us/prod/a.yaml", False),
        ("clusters/*/dev/**", "clusters/us/east/dev/a.yaml", False),
        ("clusters/us-east/**", "clusters/us-east-2/a.yaml", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/xb", False),
        ("a/**/b", "ab", False),
        ("**/charts/**", "charts/x.yaml", True),
        ("**/charts/**", "apps/charts/x.yaml", True),
        ("**/charts/**", "apps/mycharts/x.yaml", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a?c", "ac", False),
        ("a.yaml", "aXyaml", False),
        ("a[b]", "a[b]", True),
        ("a[b]", "ab", False),
        ("A.yaml", "a.yaml", False),
        ("a", "a\n", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_glob_matches_whole_paths(pattern: str, path: str, fits: bool) -> None:
    assert path_matches(pattern, path) is fits


@given(st.lists(SEGMENT, min_size=1, max_size=4))
def test_text_without_wildcards_matches_itself_alone(segments: list[str]) -> None:
    path = "/".join(segments)
    assert path_matches("**", path)
    if not {"*", "?"} & set(path):
        assert path_matches(path, path)
        assert not path_matches(path, path + "x")


def test_globs_of_argo_cd_cross_directories_and_take_alternatives() -> None:
    assert matches_any("*.yaml", "a/b.yaml")
    assert matches_any("{x.json, a/**}", "a/b.yaml")
    assert not matches_any("{x.json,y.json}", "a/b.yaml")
