"""Colour for text that says everything without it."""

import re

_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_HEADINGS = "VARIANT|Held|Failed|To fix|VALUE|QUERY|FIGURE|STEP|MODEL|Notes|Not learned|Not used"
_STYLES = (
    (re.compile(r"^\S.*$(?=\n {2,}\d* *(?:error|warning|note):)", re.MULTILINE), "bold"),
    (re.compile(rf"^({_HEADINGS}).*$|^ {{3}}VARIANT.*$", re.MULTILINE), "bold"),
    (re.compile(r"▲"), "red"),
    (re.compile(r"▼"), "green"),
    (re.compile(r"⇄"), "cyan"),
    (re.compile(r"\berror:"), "red"),
    (re.compile(r"\bwarning:"), "yellow"),
    (re.compile(r"\bneeds approval\b"), "yellow"),
    (re.compile(r"^assumed: .*$|\[[a-z0-9]+(?:-[a-z0-9]+)+\]$", re.MULTILINE), "dim"),
)
"""More replicas cost more, so they are red; the symbols say the same without it."""


def paint(text: str) -> str:
    """The text with ANSI colours."""
    for pattern, style in _STYLES:
        text = pattern.sub(f"\x1b[{_CODES[style]}m\\g<0>\x1b[0m", text)
    return text
