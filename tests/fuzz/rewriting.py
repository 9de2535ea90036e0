"""Other ways to write a manifest, mostly with the same meaning: quotes, anchors, flow style, comments, line breaks.

A mutation takes a text and two numbers, which say where and what; a byte that is no UTF-8 is a surrogate in the text.
"""

import re
from collections.abc import Callable, Sequence

Mutation = Callable[[str, int, int], str]

_MEMBER = re.compile(
    r"^(?P<blank> *)(?P<dash>(?:- +)*)(?P<key>[^\s:#'\"{}\[\]&*!|>?-][^\s:#]*):"
    r" +(?P<value>[^\s#&*!|>{\[][^\n#]*?)(?P<rest> *(?:#.*)?)$",
    re.MULTILINE,
)
# {v} is the value that stands there, {b} the indentation below its key.
_VALUES = (
    "'{v}'", '"{v}"', '"\\x41\\u0062{v}"', "&a {v}", "&a {v}", "&a-b/c{b}{v}", "&a # c{b}{v}", "&a\t{v}", "!!str {v}",
    "! {v}", "!x {v}", "&a !!str {v}", "!!str &a {v}", "!!binary aGk=", "[{v}]", "[{v}, b, [c]]",
    "{{a: {v}, b: [x, 'y',]}}", '{{"a":1}}', "{{{b}a: {v} # c{b}}}", "[{b}{v},{b}]", "[{v},{b}# c{b}x]", "|{b}{v}",
    "|+{b}{v}\n", "|-{b}{v}\n\n", ">-{b}{v}{b}x", ">{b}{v}\n{b}{b}  x", "|2{b}{v}", "|1-{b}{v}", "| # c{b}{v}",
    "{v}{b}more words", '"{v}\n{b}more"', '"{v}\\{b}more"', "'{v}{b}more'", "", "~", "*a", "*a # c", "&a", "&a # c",
    "!!null", "!!str", "0x1F", "1_000", "1e3", "-0", "0o17", ".nan", ".inf", "-.5", "1e999", "12:30", "2024-01-01",
    "yes", "off", "'it''s'", '"\\U0001F600\\n"', "💡 é", "'é'", "${{X}}", "{{{{ x }}}}", "[]", "{{}}", "-", "- x",
    "a: b", "@x", "`x`", "%x", "a #b", "a#b", "'#'", "null", "{{a: {{b: {{c: 1}}}}}}", "\t{v}", "{v}\t", "{v}\t# c",
    "&é {v}", "{b}{v}", " # c{b}{v}", "{b}  a: {v}{b}  b: 1", "{b}- {v}{b}- 1", "{b}# c{b}{v}", "{b}&a{b}{v}",
    "&a{b}  a: {v}", "&a{b}- {v}", "!x{b}  a: {v}", "'{v}", '"', "[{v}", "{v}]", "{{{v}", "\\n",
    "9223372036854775807", "18446744073709551616", "-9223372036854775809", "0", "-1", "1.5", "true", "null", '""',
    "''",
)  # fmt: skip
_KEYS = (
    '"{k}":', "'{k}':", '"\\x61{k}":', "{k} :", "{k}\t:", "? {k}\n{b}:", "? {k} # c\n{b}:", "&k {k}:", "&k {k}: &a",
    "!!str {k}:", "{k}:", "<<:", "on:", "8080:", "0x10:", "~:", "*a :", "[{k}]:", "? - {k}\n{b}:", '"{k}" :', "é:",
    "a b:", "{k}:\n{b}  #c\n{b} ", "- {k}:", "kind:", "name:", "spec:", "metadata:", "items:", '"{k}\\\n {b}":', "💡:",
    '"<<":',
)  # fmt: skip
_INSERTED = (
    "# c", "", "   ", "\t", "    # deep", "# c\n\n# d", "---", "...", "--- # c", "---\n---", "...\n---",
    "%YAML 1.1\n---", "%TAG ! tag:x,2000:\n---", "--- |", "--- a", "<<: *a", "<<: {{x: 1}}", "x: &a {{y: 1}}",
    "x: &a", "<<: [*a, {{y: 1}}]", "- x", "- ", "?", ":", "x: *a", "? x", "a: 1", "}}", "# {{ .Values }}",
    "{{- if x }}", "x: |\n  y", "---\t", "--- &a", "x: '---'", 'y: "\n---\n"', "...# c", "... # c", "status:",
    "status: {{}}", "# é 💡",
)  # fmt: skip
_DROPPED = (0, 1, 2, 4, 8)


def write_value(text: str, place: int, number: int) -> str:
    """Write one value another way, or another value."""
    return _rewrite(text, place, lambda match: f"{match['key']}: {_form(_VALUES, number, match)}{match['rest']}")


def write_key(text: str, place: int, number: int) -> str:
    """Write one key another way, or another key."""
    return _rewrite(text, place, lambda match: f"{_form(_KEYS, number, match)} {match['value']}{match['rest']}")


def share_value(text: str, place: int, number: int) -> str:
    """Give one value an anchor, and let another be its alias."""
    anchored = _rewrite(text, place, lambda match: f"{match['key']}: &a {match['value']}{match['rest']}")
    return _rewrite(anchored, place + 1 + number % 3, lambda match: f"{match['key']}: *a{match['rest']}")


def _rewrite(text: str, place: int, write: Callable[[re.Match[str]], str]) -> str:
    members = list(_MEMBER.finditer(text))
    if not members:
        return text
    match = members[place % len(members)]
    return text[: match.start()] + match["blank"] + match["dash"] + write(match) + text[match.end() :]


def _form(forms: Sequence[str], number: int, match: re.Match[str]) -> str:
    indent = " " * (len(match["blank"]) + len(match["dash"]))
    form = forms[number % len(forms)]
    if forms is _KEYS:
        return form.format(k=match["key"], b=indent)
    return form.format(v=match["value"], b="\n" + indent + "  ")


def insert_line(text: str, place: int, number: int) -> str:
    """Insert a comment, a marker or another line, as deep as the line above it."""
    lines = text.split("\n")
    index = place % len(lines)
    above = lines[index - 1] if index else ""
    blank = " " * (len(above) - len(above.lstrip())) if number % 2 else ""
    inserted = _INSERTED[number // 2 % len(_INSERTED)].replace("{{", "{").replace("}}", "}")
    return "\n".join([*lines[:index], *(blank + line for line in inserted.split("\n")), *lines[index:]])


def comment_line(text: str, place: int, number: int) -> str:
    """Write a comment behind a line."""
    lines = text.split("\n")
    lines[place % len(lines)] += (" # c", "  #", "\t# c", "#c", " # 'c", " # {{ x }}", " # é")[number % 7]
    return "\n".join(lines)


def comment_everywhere(text: str, place: int, number: int) -> str:
    """Write a comment above every few lines, at an indentation of its own, and one behind them."""
    step, blank = 1 + place % 5, " " * (number % 13)
    lines = (
        f"{blank}# above\n{line}{' # behind' * (number % 2)}" if index % step == 0 else line
        for index, line in enumerate(text.split("\n"))
    )
    return "\n".join(lines)


def shift_block(text: str, place: int, number: int) -> str:
    """Indent a line and all below it that are deeper, or outdent them."""
    lines = text.split("\n")
    start = place % len(lines)
    depth = len(lines[start]) - len(lines[start].lstrip(" "))
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (depth + 1))):
        end += 1
    start += number % 2
    distance = (2, 1, -2, 4, -1)[number // 2 % 5]
    block = [" " * distance + line if distance > 0 else line[-distance:] for line in lines[start:end]]
    return "\n".join([*lines[:start], *block, *lines[end:]])


def compact_lists(text: str, place: int, number: int) -> str:
    """Write dashes two columns further left, or their items further right."""
    if place % 2:
        return re.sub(r"^  ( *)- ", r"\1- ", text, flags=re.MULTILINE)
    return re.sub(r"^( *)- ", rf"\1-{' ' * (1 + number % 4)}", text, flags=re.MULTILINE)


def list_objects(text: str, place: int, number: int) -> str:
    """Put every document into a list."""
    indented = re.sub(r"^(?=.)", "    ", text, flags=re.MULTILINE)
    item = "  -\n" + indented if place % 2 else "  - " + indented[4:]
    kind = ("List", "DeploymentList", "VariantAutoscalingList", "ConfigMapList")[number % 4]
    return f"apiVersion: {('v1', 'apps/v1', 'llmd.ai/v1alpha1')[number // 4 % 3]}\nkind: {kind}\nitems:\n{item}"


def break_lines(text: str, place: int, number: int) -> str:
    """End all lines as Windows does, or some."""
    if number % 3:
        return text.replace("\n", "\r\n")
    parts = text.split("\n")
    cut = place % len(parts)
    return "\n".join(parts[:cut]) + "\r\n" + "\r\n".join(parts[cut:])


def mark_byte_order(text: str, place: int, number: int) -> str:
    """Begin with a byte order mark."""
    del place, number
    return "\ufeff" + text


def end_otherwise(text: str, place: int, number: int) -> str:
    """End without a line break, or with more of something."""
    ends = ("", "", "\n\n", "---\n", "...\n", "# end", "# end\n", "  # deep\n", "   ", "\r", "\n...", "\n---", "\t")
    return text.rstrip("\r\n" if place % 2 else "\n") + ("" if place % 2 else "\n") + ends[number % len(ends)]


def trail_blanks(text: str, place: int, number: int) -> str:
    """Leave blanks behind every few lines."""
    step = 1 + place % 4
    tail = ("  ", "\t", " ")[number % 3]
    lines = (line + tail if index % step == 0 else line for index, line in enumerate(text.split("\n")))
    return "\n".join(lines)


def drop_line(text: str, place: int, number: int) -> str:
    """Leave out a line or some."""
    lines = text.split("\n")
    start = place % len(lines)
    return "\n".join([*lines[:start], *lines[start + 1 + _DROPPED[number % len(_DROPPED)] :]])


def repeat_lines(text: str, place: int, number: int) -> str:
    """Write a line, or some, twice."""
    lines = text.split("\n")
    start = place % len(lines)
    end = start + 1 + number % 5
    return "\n".join([*lines[:end], *lines[start:end], *lines[end:]])


def swap_lines(text: str, place: int, number: int) -> str:
    """Exchange two lines."""
    lines = text.split("\n")
    first, second = place % len(lines), number % len(lines)
    lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines)


REWRITES: tuple[Mutation, ...] = (
    write_value, write_value, write_value, write_value, write_key, write_key, share_value, insert_line, insert_line,
    comment_line, comment_everywhere, shift_block, shift_block, compact_lists, list_objects, break_lines,
    mark_byte_order, end_otherwise, trail_blanks, drop_line, repeat_lines, swap_lines,
)  # fmt: skip
