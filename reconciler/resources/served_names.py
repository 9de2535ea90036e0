"""Under which names an engine serves its model: `--served-model-name` on a command line."""

import shlex
from collections.abc import Iterator, Sequence

_SPELLINGS = ("--served-model-name", "--served_model_name")
_MARK = "--served"
_SHELL_OPERATORS = frozenset({"&&", "||", ";", "|", "&", ">", ">>", "2>&1", "<"})


def find_served_names(words: Sequence[str]) -> tuple[str, ...]:
    """The names after the flag, up to the next flag; `--flag=name` has one, names with `$` are not known here."""
    if not any(_MARK in word for word in words):
        return ()
    names: list[str] = []
    taking = False
    for word in _split_scripts(words):
        flag, equals, name = word.partition("=")
        if flag in _SPELLINGS:
            taking = not equals
            names.extend([name] if equals else [])
        elif word.startswith("-") or word in _SHELL_OPERATORS:
            taking = False
        elif taking:
            names.append(word.rstrip(";"))
            taking = not word.endswith(";")
    return tuple(dict.fromkeys(name for name in names if name and "$" not in name))


def _split_scripts(words: Sequence[str]) -> Iterator[str]:
    """Words of the command line; a script after `sh -c` is one word of it and is split as a shell would."""
    for word in words:
        if _MARK not in word or word.startswith("-"):
            yield word
            continue
        script = word.replace("\\\r\n", " ").replace("\\\n", " ")
        try:
            yield from shlex.split(script)
        except ValueError:
            yield from script.split()
