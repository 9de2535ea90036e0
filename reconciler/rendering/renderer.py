"""Views in, texts out: a sandbox in which nothing is printed without a filter."""

import dataclasses
import html
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import ConfigurationError
from reconciler.report.formatting import LABEL_LENGTH, TEXT_LENGTH, one_line

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from jinja2.sandbox import ImmutableSandboxedEnvironment

ZERO_WIDTH = "\N{ZERO WIDTH SPACE}"
LINE_LENGTH = 200
PAGE_LENGTH = 2000
YAML_LENGTH = 32768
"""What Kubernetes allows for the longest text we write, a condition's message."""

_MARKDOWN = re.compile(r"([\\`*_\[\]|~$!#])")
_NAMED_IN_CODE = re.compile(r"`([A-Za-z0-9][A-Za-z0-9._-]{0,99})`")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# A mention notifies, a reference closes issues or links them, `[skip ci]` switches a repository's checks off.
_EFFECTS = re.compile(r"(@|#|!(?=\d)|\[|://|\bGH-|\bwww(?=\.))", re.IGNORECASE)
_LINE_START = re.compile(r"^(/|[-+](?=\s|$)|[-=](?=[-=\s]*$)|\d+(?=[.)](?:\s|$)))")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_CLOSING = str.maketrans({"(": "%28", ")": "%29", "[": "%5B", "]": "%5D", "'": "%27"})
_UNCHARTED = re.compile(r"[^A-Za-z0-9 ,./:_-]")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_PATH = re.compile(r"[MLZ0-9 .-]*")
_YAML_KEY = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[._/-]+[A-Za-z0-9]+)*")
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Plain words that some reader takes for something else than text."""


class Filtered(str):
    """Text that went through a filter and may be printed."""

    __slots__ = ()


def escape_markdown(value: object) -> Filtered:
    """Text inside a Markdown paragraph, list item or table cell: it formats, links, mentions and hides nothing."""
    text = one_line(str(value), limit=TEXT_LENGTH).translate(_ENTITIES)
    text = _MARKDOWN.sub(r"\\\1", text)
    text = _LINE_START.sub(_escape_line_start, text)
    return Filtered(re.sub(r"(@|\\#|\\!(?=\d)|://|\bGH-|\bwww(?=\.))", r"\1&#8203;", text, flags=re.IGNORECASE))


def sentence(value: object) -> Filtered:
    """The same of our own words, in which names between backticks are shown as code."""
    parts = _NAMED_IN_CODE.split(str(value))
    return Filtered("".join(code_span(part) if index % 2 else _spaced(part) for index, part in enumerate(parts)))


def _spaced(text: str) -> str:
    """A part of a sentence, which is parted from what stands next to it."""
    before, after = (" " if each.isspace() else "" for each in (text[:1], text[-1:]))
    return f"{before}{escape_markdown(text)}{after}" if text.strip() else text[:1]


def code_span(value: object) -> Filtered:
    """A name between backticks, safe in a table cell too; the fence is longer than any run of backticks inside.

    A pipe would end a cell even here and no escape works both inside and outside of a table, so it is shown as its
    broken twin; comment brackets are parted by an invisible space, so that no text can pose as our hidden marker.
    """
    text = one_line(str(value), limit=LABEL_LENGTH).replace("|", "¦")
    text = text.replace("<!--", f"<{ZERO_WIDTH}!--").replace("-->", f"--{ZERO_WIDTH}>")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    padding = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return Filtered(f"{fence}{padding}{text}{padding}{fence}")


def link(value: object) -> Filtered:
    """A name between backticks that leads to its address, where it has one.

    Of an address no character is left that could end it, a table's cell or an attribute: we made it, from what we read.
    """
    name, address = code_span(getattr(value, "text", "")), str(getattr(value, "address", ""))
    is_safe = _ADDRESS.fullmatch(address) is not None
    return Filtered(f"[{name}]({address.translate(_CLOSING)})" if is_safe else name)


def replay_command(value: object) -> Filtered:
    """The command that decides again from a recording of this name."""
    return code_span(f"reconciler plan --replay {shlex.quote(str(value))}")


def quoted(value: object) -> Filtered:
    """A name in a chart, between double quotes: letters, digits and what else a chart's grammar leaves alone."""
    return Filtered('"' + _UNCHARTED.sub(" ", one_line(str(value), limit=LABEL_LENGTH)) + '"')


def number(value: object) -> Filtered:
    """A plain decimal number of a chart; 0 for what is none."""
    text = str(value)
    return Filtered(text if _NUMBER.fullmatch(text) else "0")


def plain_line(value: object) -> Filtered:
    """One line of a title or a commit message: no new line, no trailer, no mention, no reference that acts."""
    return Filtered(_EFFECTS.sub(rf"\1{ZERO_WIDTH}", one_line(str(value), limit=LINE_LENGTH)))


def trailer_value(value: object) -> Filtered:
    """The value of a commit trailer: one line, otherwise as it is, so that an address stays one."""
    return Filtered(one_line(str(value), limit=LINE_LENGTH))


def yaml_string(value: object) -> Filtered:
    """A double-quoted YAML scalar that reads back as exactly this text."""
    return Filtered(double_quoted(str(value)[:YAML_LENGTH]))


def double_quoted(text: str) -> str:
    """A text as a YAML scalar that every reader takes for exactly this text; what is not printable is escaped."""
    if text.isprintable():  # nearly every text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return '"' + "".join(map(_yaml_character, text)) + '"'


def yaml_key(value: object) -> Filtered:
    """A mapping key: unchanged when it is a plain name that every reader takes for text, else quoted."""
    text = str(value)
    return Filtered(text) if is_plain_text(text) else yaml_string(text)


def is_plain_text(text: str) -> bool:
    """Whether it is a name that every reader of YAML takes for text without quotes."""
    return _YAML_KEY.fullmatch(text) is not None and text.lower() not in _YAML_WORDS


def html_text(value: object) -> Filtered:
    """Text of a page or of a quoted attribute: one line of what can be seen, no tag, no entity of its own."""
    return Filtered(html.escape(one_line(str(value), limit=PAGE_LENGTH), quote=True))


def svg_path(value: object) -> Filtered:
    """Moves and lines of a picture; nothing for what is none."""
    text = str(value)
    return Filtered(text if _PATH.fullmatch(text) else "")


def verbatim(value: object) -> Filtered:
    """Text that we made ourselves and that must not change by a byte: the hidden marker, indentation."""
    return Filtered(value)


FILTERS: Mapping[str, Callable[[object], Filtered]] = {
    "md": escape_markdown,
    "sentence": sentence,
    "code": code_span,
    "link": link,
    "replay": replay_command,
    "quoted": quoted,
    "number": number,
    "line": plain_line,
    "trailer": trailer_value,
    "yaml_string": yaml_string,
    "yaml_key": yaml_key,
    "html": html_text,
    "path": svg_path,
    "verbatim": verbatim,
}


def _escape_line_start(match: re.Match[str]) -> str:
    # A leading number needs its dot escaped, not itself; a slash would be a command of some forges.
    start = match.group(1)
    if start.isdigit():
        return f"{start}&#8203;"
    return f"&#{ord(start)};" if start == "/" else f"\\{start}"


def _yaml_character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        return r"\uFFFD"
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


CUT_NOTE = "\n\n*Cut here: the rest does not fit the forge's limit.*\n"
SUFFIX = ".j2"


class Renderer:
    """Renders templates by name; `templates` (name -> text) replaces the shipped ones."""

    def __init__(self, templates: Mapping[str, str] | None = None) -> None:
        self._environment = _shipped_environment() if templates is None else _environment(templates)

    def render(self, name: str, view: "DataclassInstance") -> str:
        """The text of template `name`, its variables the fields of `view`.

        Raises ConfigurationError when the template is missing, broken, prints what no filter saw, or names a
        variable that the view does not have.
        """
        from jinja2 import TemplateError

        variables = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
        try:
            return self._environment.get_template(name).render(variables)
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            place = f"template {name}" + (f", line {line}" if line else "")
            raise ConfigurationError(f"{place}: {error.message}: see templates/README.md for its variables") from error

    def render_within(self, name: str, views: Iterable["DataclassInstance"], *, limit: int, marker: str = "") -> str:
        """The first of `views`, given longest first, whose text keeps to `limit` characters.

        When none does, the last is cut at the end of a line, open code blocks and details are closed, and `marker` is
        put after the cut.
        """
        text = ""
        for view in views:
            text = self.render(name, view)
            if len(text) <= limit:
                return text
        tail = CUT_NOTE + (f"\n{marker}\n" if marker else "")
        return _cut(text, limit - len(tail)) + tail


def _cut(text: str, room: int) -> str:
    """The whole lines that fit, with an open code block and open details closed so that the note stays visible."""
    endings = "\n```\n" + "</details>" * text.count("<details>")
    kept = text[: max(0, room - len(endings))].rpartition("\n")[0]
    if sum(line.lstrip().startswith("```") for line in kept.splitlines()) % 2:
        kept += "\n```"
    open_details = kept.count("<details>") - kept.count("</details>")
    return kept + ("\n" + "</details>" * open_details if open_details > 0 else "")


@cache
def _shipped_environment() -> "ImmutableSandboxedEnvironment":
    """Read and compiled once in a process: nothing that is rendered changes it."""
    return _environment(shipped_templates())


def _environment(templates: Mapping[str, str]) -> "ImmutableSandboxedEnvironment":
    # Who only escapes a text, as for a finding, renders nothing.
    from jinja2 import DictLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=DictLoader(templates),
        undefined=StrictUndefined,
        # HTML escapes fit none of the places we print to; `finalize` makes a filter that fits mandatory.
        autoescape=False,
        finalize=_require_filtered,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.globals.clear()
    environment.filters = dict(FILTERS)
    environment.tests = {name: environment.tests[name] for name in ("defined", "equalto", "eq", "ne", "in")}
    return environment


def _require_filtered(value: object) -> str:
    """The only way out of an expression: text that went through a filter, and whole numbers."""
    if isinstance(value, Filtered):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    from jinja2 import TemplateError

    raise TemplateError("a value is printed without a filter, choose one of " + ", ".join(sorted(FILTERS)))


def shipped_templates() -> Mapping[str, str]:
    """Name (`pull_request/body.md.j2`) -> text: of the installed package, or of the checkout it is imported from."""
    return dict(sorted(_read(_shipped(), "", SUFFIX)))


def shipped_manifests(folder: str) -> Mapping[str, str]:
    """The plain files of a folder next to the templates: name -> text."""
    return dict(sorted(_read(_shipped().joinpath(*folder.split("/")), "", ".yaml")))


def _shipped() -> Traversable:
    package = resources.files("reconciler")
    packaged = package / "_templates"
    return packaged if packaged.is_dir() else Path(str(package)).parent / "templates"


def _read(folder: Traversable, prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _read(entry, f"{name}/", suffix)
        elif entry.name.endswith(suffix):
            yield name, entry.read_text(encoding="utf-8")
