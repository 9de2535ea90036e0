import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigurationError
from reconciler.git.repository import branch_ref, check_branch_name, check_object_id, is_branch_name

HOSTILE = [
    "",
    "-x",
    "--upload-pack=x",
    "@{-1}",
    "a..b",
    "a b",
    "a\nb",
    "main\n",
    ".hidden",
    "a/.hidden",
    "/a",
    "a/",
    "a//b",
    "a.",
    "a.lock",
    "a.lock/b",
    "a:b",
    "+a",
    "a^",
    "a~1",
    "a*",
    "a;id",
    "$(id)",
    "ü",
    "x" * 201,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_branch_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="branch"):
        check_branch_name(name)


@pytest.mark.parametrize("name", ["main", "release-1.2", "reconciler/us-east-llm-1a2b3c4d", "a_b", "x" * 200])
def test_ordinary_branch_names_are_accepted(name: str) -> None:
    assert branch_ref(name) == f"refs/heads/{name}"


@given(st.text(alphabet="ab./-_@{}~^: \n", max_size=12))
def test_an_accepted_name_is_never_an_option_or_a_range(name: str) -> None:
    if is_branch_name(name):
        assert not name.startswith(("-", "/", "."))
        assert ".." not in name
        assert not set(name) & set("@{}~^: \n")


@pytest.mark.parametrize("text", ["", "0" * 39, "0" * 41, "g" * 40, "A" * 40, "0" * 40 + "\n", "HEAD"])
def test_only_full_object_ids_reach_a_refspec(text: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        check_object_id(text)


@pytest.mark.parametrize("length", [40, 64])
def test_both_object_formats_are_accepted(length: int) -> None:
    assert check_object_id("a" * length) == "a" * length
