"""Under which names an engine serves its model: `--served-model-name` on a command line."""

from collections.abc import Sequence

from reconciler.resources.command_lines import split_scripts

_SPELLINGS = ("--served-model-name", "--served_model_name")
_MARK = "--served"
_SHELL_OPERATORS = frozenset({"&&", "||", ";", "|", "&", ">", ">>", "2>&1", "<"})


def find_served_names(words: Sequence[str]) -> tuple[str, ...]:
    """The names after the flag, up to the next flag; `--flag=name` has one, names with `$` are not known here."""
    if not any(_MARK in word for word in words):
        return ()
    names: list[str] = []
    taking = False
    for word in split_scripts(words, lambda word: _MARK in word):
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
