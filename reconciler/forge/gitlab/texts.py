"""Titles and texts as GitLab takes them: it acts on some of what a text holds, and keeps some of it otherwise."""

import re

from reconciler.forge.gitlab.answers import DRAFT

TITLE_LIMIT = 255
COMMAND = re.compile(r"^(?=\r*/)", re.MULTILINE)
"""A line like `/merge` is an order to GitLab, given with our token; with a space before it, it is a text."""


def title_of(title: str, *, is_draft: bool) -> str:
    """A title as it is kept: a draft is one by how it begins, and spaces around it are dropped."""
    prefix = DRAFT if is_draft else ""
    return prefix + title[: TITLE_LIMIT - len(prefix)].strip()


def text_to_send(text: str) -> str:
    """`text` without anything that GitLab would take for an order."""
    return COMMAND.sub(" ", text)


def is_kept_as(text: str, kept: str) -> bool:
    """Whether GitLab, given `text`, shows `kept`: carriage returns and spaces at the end get lost."""
    return text_to_send(text).replace("\r", "").rstrip() == kept.replace("\r", "").rstrip()
