"""Words of a container's command line, and the flags among them."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

# A shell's way of splitting takes a microsecond a character: a giant's words are good enough.
_LONGEST_SCRIPT = 32_768


def split_scripts(words: Sequence[str], is_script: Callable[[str], bool]) -> Iterator[str]:
    """Words of the command line; a script after `sh -c` is one word of it and is split as a shell would."""
    for word in words:
        if word.startswith("-") or not is_script(word):
            yield word
            continue
        script = word.replace("\\\r\n", " ").replace("\\\n", " ")
        try:
            yield from shlex.split(script) if len(script) <= _LONGEST_SCRIPT else script.split()
        except ValueError:
            yield from script.split()


def read_flags(words: Sequence[str]) -> Mapping[str, str]:
    """The last value of every flag, by its name with dashes; without a value it is empty.

    Both `--flag=value` and `--flag value` are read, and both `--my-flag` and `--my_flag`.
    """
    flags: dict[str, str] = {}
    for index, word in enumerate(words):
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            if not equals and not following.startswith("--"):
                value = following
            flags[name.lstrip("-").replace("_", "-")] = value.rstrip(";")
    return flags


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
