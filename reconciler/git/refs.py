"""Names of branches and object ids, checked before git sees them."""

import re
from typing import NewType

from reconciler.errors import ConfigurationError

ObjectId = NewType("ObjectId", str)

MAX_NAME_LENGTH = 200
NAME_CHARACTERS = re.compile(r"[A-Za-z0-9._/-]+")
PULL_REQUEST_REF = re.compile(r"refs/(?:pull|merge-requests)/[1-9][0-9]{0,9}/head")
OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def is_branch_name(name: str) -> bool:
    """Whether `name` is inside our own pattern.

    git's own check is wider than it looks: `check-ref-format` lets `refs/heads/-x` through, and the `--branch` form
    reads `@{-1}` as a name.
    """
    return (
        len(name) <= MAX_NAME_LENGTH
        and NAME_CHARACTERS.fullmatch(name) is not None
        and ".." not in name
        and not name.startswith("-")
        and not name.endswith(".")
        and all(_is_component(component) for component in name.split("/"))
    )


def check_branch_name(name: str) -> str:
    """Return `name`, or raise ConfigurationError when git could read it as something else than a branch."""
    if not is_branch_name(name):
        raise ConfigurationError(
            f"branch {name[:MAX_NAME_LENGTH]!r}: expected at most {MAX_NAME_LENGTH} letters, digits and `._/-`, "
            "no part that begins with a dot or ends with `.lock`, no `..`, no leading `-` and no trailing `/` or `.`"
        )
    return name


def branch_ref(name: str) -> str:
    """The full name of a branch."""
    return f"refs/heads/{check_branch_name(name)}"


def check_head_ref(name: str) -> str:
    """The full name of a branch, or of where a forge keeps the head of a pull request; ConfigurationError else."""
    if PULL_REQUEST_REF.fullmatch(name):
        return name
    return branch_ref(name.removeprefix("refs/heads/"))


def is_object_id(text: str) -> bool:
    """Whether `text` is a full SHA-1 or SHA-256 object id."""
    return OBJECT_ID.fullmatch(text) is not None


def check_object_id(text: str) -> ObjectId:
    """Return `text` as an object id, or raise ValueError: in `sha:ref` an empty sha deletes the branch."""
    if not is_object_id(text):
        raise ValueError(f"expected 40 or 64 hexadecimal digits, found {text[:80]!r}")
    return ObjectId(text)


def _is_component(component: str) -> bool:
    return component != "" and not component.startswith(".") and not component.endswith(".lock")
