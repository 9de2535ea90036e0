"""Replaces what may be a secret in recorded manifests by `***`: by names, shapes and places; every line stays a line.

Only texts that no reader asks for are replaced, so a replay decides the same. What was replaced once stays as it is.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from reconciler.domain.recording import ManifestFile
from reconciler.domain.records import dataclass, replace
from reconciler.errors import InputError
from reconciler.http.redaction import REDACTED, Redactor
from reconciler.manifests.documents import (
    MAX_DOCUMENTS,
    ComposingBudget,
    Section,
    SourceText,
    compose_section,
    decode_source,
    parse_readable,
    split_sections,
    text_at,
    value_at,
)
from reconciler.manifests.edits import MappingNode, ScalarNode, SequenceNode, YamlNode, build_tree
from reconciler.placement.repository import directory_of, is_kustomization, resolve
from reconciler.resources.reading import names_kind

_NAME = (
    r"(?:(?:pass(?:word|wd|phrase)?|pwd|[_.-]pw|(?-i:Pw)|secret|credential|key[_-]data|salt|basic[_-]?auth|[_.-]auth"
    r"|webhook(?:[_-]?ur[il])?|docker[_-]?config(?:[_-]?json)?"
    r"|(?:api|access|account|private|secret|encryption|signing|license)[_-]?key)s?(?:[_-]?(?:base|pem|data|hash))?"
    r"|[._-]key(?:[_-](?:base|pem|data))?|token|authorization)"
)
NAMED = re.compile(rf"{_NAME}$", re.IGNORECASE)
REFERENCE = re.compile(r"(?:name|key|path|namespace|kind|file|env)$", re.IGNORECASE)
"""Members of a mapping named like a secret that say where it is."""
# An option's value follows in the same line, in the next one of a shell's command, or as the next item of a list.
_AFTER_OPTION = r"""(?:[ \t]+|[ \t]*\\\r?\n[ \t]*(?!-)|\\?["'][ \t]*,[ \t]*(?=\\?["']))"""
ASSIGNED = re.compile(
    rf"((?P<name>{_NAME})\\?[\"']?[ \t]*(?:=|:(?=[ \t\\\"']))[ \t]*\\?[\"']?"
    rf"|(?<![\w.-])--?[\w.-]{{0,60}}{_NAME}{_AFTER_OPTION}\\?[\"']?"
    rf"|(?<![\w.:/-])--?[\w.-]{{0,60}}{_NAME}:"
    # Without a dash as a whole line alone: the tag of an image and the name of a recorded series look the same.
    rf"|^[ \t]*[\"']?[\w.]{{0,60}}{_NAME}:(?=[^\s\"'\[\](){{}}]+[\"']?[ \t]*\r?$))"
    r"(?P<value>(?![{\[(|>!]|\*(?!\*)|\$[({]|\\\r?\n)(?:[^\s\"',;&{}\[\]()\\]|\\(?![\"'n]))+)",
    re.IGNORECASE | re.MULTILINE,
)
SECRET = re.compile(r"\bkind\\?[\"']?[ \t]*:[ \t]*\\?[\"']?Secret(?:List)?\b")
SECRET_KINDS = ("Secret", "SecretList")
SPOKEN = re.compile(
    rf"(?:<(?:[\w:.-]*?{_NAME})>|[ \t](?:-u|--user)[ \t]+[\w.-]+:|\blogin[ \t]+\S+[ \t]+password[ \t]+"
    r"|[?&](?:sig|signature|code|x-(?:amz|goog)-signature)=)(?P<value>(?!\*)[^\s\"'<&]+)",
    re.IGNORECASE,
)
"""A secret in XML, in an argument of curl, in a netrc, in the query of a signed address."""
_TAIL = r"s?(?:[_-]?(?:base|pem|data|hash))?"
_END = r"(?:[\\\"'\s:=,}\]>]|\Z)"
_BEFORE_KEY = ("[._-]", "api", "access", "account", "private", "secret", "encryption", "signing", "license")
# One regular expression of all of them takes twenty times as long: each of these begins with its word, which is looked
# for first. Where they are less strict than the names above, only more is looked at.
_HINTS = {
    "pass": rf"pass(?:word|wd|phrase)?{_TAIL}{_END}",
    "pwd": rf"pwd{_TAIL}{_END}",
    "secret": rf"secret{_TAIL}{_END}|secretgenerator|secretlist",
    "credential": rf"credential{_TAIL}{_END}",
    "key": rf"key(?:[_-]data|{'|'.join(f'(?<={each}key)' for each in _BEFORE_KEY)}){_TAIL}{_END}",
    "token": rf"token{_END}",
    "authorization": rf"authorization{_END}",
    "://": r"://[^/?#\s]*@",
    "private key": "private key",
    "gh": "gh[a-z]_",
    "github_pat_": "github_pat_",
    "gl": "gl[a-z]+-",
    "eyj": "eyj",
    "bearer ": "bearer ",
    "basic ": "basic ",
    "pw": rf"pw{_TAIL}{_END}",
    "salt": rf"salt{_TAIL}{_END}",
    "auth": rf"(?:basic[_-]?|[._-])auth{_TAIL}{_END}",
    "webhook": rf"webhook(?:[_-]?ur[il])?{_TAIL}{_END}",
    "docker": rf"docker[_-]?config(?:[_-]?json)?{_TAIL}{_END}",
    "binarydata": "binarydata",
    "stringdata": "stringdata",
    " -u ": " -u ",
    "--user ": "--user ",
    "sig": "sig(?:nature)?=",
    "code=": "[?&]code=",
    "\\": r"\\(?:[ux0-7]|\r?\n|\w)",
    "'": r"'(?:(?<=\w')\w*'|\w+'(?=\w))",
    '"': r'"(?:(?<=\w")|(?<=\w\\"))\w*\\?"|"\w+\\?"(?=\w)',
    "%": "%[2-7][0-9a-f]",
    "&#": "&#",
}
"""What every file with something to replace has, in lower case: a word, and more exactly what."""
_ALIAS = re.compile(r"\*([^\s,\[\]{}]+)")
GENERATOR = "SecretGenerator"
_PREFIX = re.compile(r"(?:[&!]\S*[ \t\r\n]+)*")
_LITERAL = re.compile(r"([\"']?[^=\"']*=)(.*?)([\"']?)", re.DOTALL)
_LITERAL_LINE = re.compile(r"([\w.-]+=)?\S[^\r\n]*")
_LINE = re.compile(r"\S[^\r\n]*")
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#[^\r\n]*", re.MULTILINE)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END|\Z)", re.DOTALL)
_ESCAPE = re.compile(
    r"(?<=[\w-])\\\r?\n[ \t]*(?=\w)"
    r"|(?<!\\)\\+(?:(?-i:u)(?P<u>[0-9a-f]{4})|(?-i:U)(?P<U>[0-9a-f]{8})|x(?P<x>[0-9a-f]{2})|(?P<octal>[0-7]{3}))"
    r"|%(?P<percent>[2-7][0-9a-f])|&#(?:x(?P<hex>[0-9a-f]{1,6})|(?P<decimal>[0-9]{1,7}));"
    r"|(?<=\w)(?:'(?P<within>\w*)'|\\?\"(?P<inside>\w*)\\?\"|\\(?=\w))|'(?P<first>\w+)'(?=\w)"
    r"|\\?\"(?P<begin>\w+)\\?\"(?=\w)",
    re.IGNORECASE,
)
"""A character as YAML, JSON, shells, addresses and XML may write it, or a part of a word that a shell has in quotes."""
_BASES = {"octal": 8, "decimal": 10}
_QUOTED = ("within", "inside", "first", "begin")
MOST_ESCAPED = 4
"""Texts within texts whose escapes are read."""
_PLAIN = ("", "true", "false", "null", "~", REDACTED)


def without_secrets(manifests: Sequence[ManifestFile]) -> Iterator[ManifestFile]:
    """The manifests as they may be shared."""
    generated = {path for each in manifests if is_kustomization(each.path) for path in _generated_from(each)}
    plain = set[str]()
    for each in manifests:
        is_whole = each.path in generated and not _holds_ours(each)
        yield replace(each, body=_redact_file(each.path, each.body, plain, is_whole=is_whole))


def _generated_from(manifest: ManifestFile) -> Iterator[str]:
    """The files that a kustomization makes Secrets of."""
    if b"secretGenerator" not in manifest.body:
        return
    documents, _ = parse_readable(manifest.path, manifest.body, last_key_counts=True)
    for document in documents:
        entries = value_at(document.value, ("secretGenerator",))
        for entry in entries if isinstance(entries, list) else ():
            for key in ("files", "envs", "env"):
                named = value_at(entry, (key,))
                for name in named if isinstance(named, list) else [named]:
                    if isinstance(name, str):
                        yield resolve(directory_of(manifest.path), name.rpartition("=")[2]) or ""


def _holds_ours(manifest: ManifestFile) -> bool:
    documents, _ = parse_readable(manifest.path, manifest.body)
    return any(names_kind(text_at(each.value, "kind")) for each in documents)


def _redact_file(path: str, body: bytes, plain: set[str], *, is_whole: bool) -> bytes:
    try:
        source = decode_source(path, body)
        has_hints = is_whole or may_hold_secrets(source.text, plain)
        if not has_hints and source.text.count("\n---") < MAX_DOCUMENTS:
            return body
        sections = split_sections(source)
    except InputError:
        return re.sub(rb"[A-Za-z0-9]", b"x", body)  # the error is the same, and nothing else is read
    if not has_hints:
        return body
    return source.encode("".join(_redact_section(source, each, is_whole=is_whole) for each in sections))


def may_hold_secrets(text: str, plain: set[str] | None = None) -> bool:
    """Whether anything in a text looks like a secret or its name; nearly no file does.

    `plain` are lines in which nothing does, which are not looked at again: those of this text are added.
    """
    known = set[str]() if plain is None else plain
    lines = set(text.splitlines(keepends=True)) - known  # what is looked for is never on two of them
    lower = "\n".join((*lines, "")).lower()
    if any(word in lower and re.search(pattern, lower) is not None for word, pattern in _HINTS.items()):
        return True
    known |= lines
    return False


def _redact_section(source: SourceText, section: Section, *, is_whole: bool) -> str:
    text = source.text[section.start : section.end]
    try:
        compose_section(source, section, ComposingBudget(), last_key_counts=True)
    except InputError:
        return (
            re.sub(r"[A-Za-z0-9]", "x", text) if is_whole else _hide(text).replace(f" {REDACTED}", " xxx")
        )  # it would be an alias
    splices = _Splices(text=text)
    roots = build_tree(text).roots
    splices.find_generated(roots)
    for root in roots:
        splices.walk(root, is_secret=is_whole)
    if splices.generates:  # people write down what a literal was
        spans = sorted(splices.spans)
        for match in _COMMENT.finditer(text):
            before = bisect_right(spans, (match.start(), len(text)))
            is_comment = not before or spans[before - 1][1] <= match.start()
            if is_comment and "reconciler.io/" not in match[0] and match[0].strip("# \t\r"):
                splices.found.append((match.start(), match.end(), f"# {REDACTED}"))
    for start, end, redacted in sorted(splices.found, reverse=True):
        text = text[:start] + redacted + text[end:]
    return _COMMENT.sub(lambda match: f"# {REDACTED}" if _is_spelled(match[0]) else _hide(match[0]), text)


@dataclass(slots=True, kw_only=True)
class _Splices:
    """What to replace in a text."""

    text: str
    found: list[tuple[int, int, str]] = field(default_factory=list)
    generates: bool = False
    """Whether it has literals of a Secret."""
    shared: set[str] = field(default_factory=set)
    """Anchors that those literals use."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Where scalars are, which hold no comments."""

    def find_generated(self, nodes: Iterable[YamlNode]) -> None:
        """Look for generators of Secrets, and the anchors that they use."""
        for node in nodes:
            if isinstance(node, SequenceNode):
                self.find_generated(node.items)
            elif isinstance(node, MappingNode):
                members = {key: member.value for key, member in node.members.items()}
                if "secretGenerator" in members:
                    self.generates = True
                    value = members["secretGenerator"]
                    self.shared |= set(_ALIAS.findall(self.text[value.start : value.end]))
                elif _text(members.get("kind")) == GENERATOR:
                    self.generates = True
                self.find_generated(each.value for each in (*node.members.values(), *node.others))

    def walk(self, node: YamlNode, *, is_secret: bool = False, name: str = "") -> None:
        """Look at a node and what is in it; `is_secret`: all of it, `name` is what holds it if that sounds like one."""
        if node.anchor in self.shared:
            self._walk_literals(node)
            return
        if isinstance(node, ScalarNode):
            self.spans.append((node.start, node.end))
            start = _start_of(self.text, node)
            is_hidden = is_secret or (bool(name) and not _is_harmless(name, node.text))
            found = self.text[start : node.end]
            if found:
                self.found.append((start, node.end, _mask(found, node) if is_hidden else _inside(found, node)))
        elif isinstance(node, SequenceNode):
            option = ""
            for item in node.items:
                self.walk(item, is_secret=is_secret, name=name or option)
                text = _text(item)
                option = text if text.startswith("-") and NAMED.search(_ESCAPE.sub(_character, text)) else ""
        elif isinstance(node, MappingNode):
            self._walk_members(node, is_secret=is_secret, name=name)

    def _walk_members(self, node: MappingNode, *, is_secret: bool, name: str) -> None:
        members = {key: member.value for key, member in node.members.items()}
        kind, target = _text(members.get("kind")), members.get("target")
        is_object = kind in SECRET_KINDS
        of_secret = isinstance(target, MappingNode) and _text(_member(target, "kind")) == "Secret"
        is_secret = is_secret or _text(members.get("path")).startswith("/stringData")
        variable = _text(members.get("name")) or _text(members.get("path"))
        others = ((_text(each.key), each.value) for each in node.others)
        for key, value in (*members.items(), *others):
            if key == "secretGenerator" and isinstance(value, SequenceNode):
                for entry in value.items:
                    self._walk_generator(entry)
                continue
            if key == "literals" and kind == GENERATOR:
                self._walk_literals(value)
                continue
            own = variable if key == "value" and NAMED.search(variable) else key if NAMED.search(key) else ""
            inherited = "" if REFERENCE.search(key) else name
            whole = is_secret or (is_object and key in ("data", "stringData", "items")) or key == "binaryData"
            whole = whole or (of_secret and key == "patch")
            if is_secret and key in ("op", "path", "kind", "apiVersion", "name"):
                whole = False
            self.walk(value, is_secret=whole, name=own or inherited)

    def _walk_generator(self, entry: YamlNode) -> None:
        for key, member in entry.members.items() if isinstance(entry, MappingNode) else ():
            if key == "literals":
                self._walk_literals(member.value)

    def _walk_literals(self, node: YamlNode) -> None:
        """The texts `key=value` of a generator, wherever an anchor has put them."""
        if isinstance(node, ScalarNode):
            self.spans.append((node.start, node.end))
            start = _start_of(self.text, node)
            self.found.append((start, node.end, _mask_literal(self.text[start : node.end], node)))
        elif isinstance(node, SequenceNode):
            for item in node.items:
                self._walk_literals(item)
        elif isinstance(node, MappingNode):
            for member in node.members.values():
                self._walk_literals(member.value)


def _member(node: MappingNode, key: str) -> YamlNode | None:
    return node.members[key].value if key in node.members else None


def _start_of(text: str, node: YamlNode) -> int:
    """Where a value begins after its anchor and tag."""
    match = _PREFIX.match(text, node.start, node.end)
    return match.end() if match else node.start


def _text(node: YamlNode | None) -> str:
    return node.text if isinstance(node, ScalarNode) else ""


def _is_harmless(name: str, value: str) -> bool:
    """Whether a value is a switch, a number that is no password, or a variable that is put in later."""
    is_number = re.fullmatch(r"[0-9.]+", value) is not None and re.search("pass|pwd", name, re.IGNORECASE) is None
    return is_number or value.lower() in _PLAIN or re.fullmatch(r"\$[({][\w.]*[)}]", value) is not None


def _mask(source: str, node: ScalarNode) -> str:
    """A scalar without its content, over as many lines."""
    if node.is_block:
        header, newline, rest = source.partition("\n")
        return header + newline + _LINE.sub(REDACTED, rest)
    mark = node.style or "'"
    return f"{mark}{REDACTED}{mark}" + "\n" * source.count("\n")


def _mask_literal(source: str, node: ScalarNode) -> str:
    """The same of `key=value`, whose key stays."""
    if node.is_block:
        header, newline, rest = source.partition("\n")
        return header + newline + _LITERAL_LINE.sub(rf"\1{REDACTED}", rest)
    match = _LITERAL.fullmatch(source)
    return f"{match[1]}{REDACTED}{match[3]}" + "\n" * match[2].count("\n") if match else _mask(source, node)


def _inside(source: str, node: ScalarNode) -> str:
    """A scalar without the secrets in its text, which may be a manifest, a patch or values of a chart."""
    if not node.is_block:
        hidden = _hide(source)
        is_alias = not node.style and hidden != source and hidden.startswith("*")
        is_whole = is_alias or SECRET.search(node.text) or _is_spelled(node.text) or _is_spelled(source)
        return _mask(source, node) if is_whole else hidden
    header, newline, rest = source.partition("\n")
    if not may_hold_secrets(rest):
        return source
    lines = rest.split("\n")
    indent = min((len(each) - len(each.lstrip(" ")) for each in lines if each.strip()), default=0)
    inner = SourceText(path="", text="\n".join(each[indent:] for each in lines), has_bom=False)
    try:
        parts = [_redact_section(inner, each, is_whole=False) for each in split_sections(inner)]
        is_readable = not parse_readable("", inner.text.encode())[1]
    except InputError:
        parts, is_readable = [_hide(inner.text)], False
    if not is_readable and (SECRET.search(inner.text) or _is_spelled(inner.text)):
        return header + newline + _LINE.sub(REDACTED, rest)
    redacted = "".join(parts).split("\n")
    if header.startswith(">") and _hide(folded := " ".join(each.strip() for each in redacted)) != folded:
        return header + newline + _LINE.sub(REDACTED, rest)
    pairs = zip(lines, redacted, strict=True)
    return header + newline + "\n".join(before[:indent] + each for before, each in pairs)


def _hide(text: str) -> str:
    """A text without what is assigned to a secret's name and what has the shape of a secret."""
    text = _PRIVATE_KEY.sub(lambda match: REDACTED + "\n" * match[0].count("\n"), text)
    text = SPOKEN.sub(lambda match: match[0][: match.start("value") - match.start()] + REDACTED, text)
    return Redactor().hide(ASSIGNED.sub(_assigned, text))


def _assigned(match: re.Match[str]) -> str:
    return match[0] if _is_harmless(match["name"] or "", match["value"]) else match[1] + REDACTED


def _is_spelled(text: str) -> bool:
    """Whether a text has a secret once its escapes are read, which nobody would find in it as it is."""
    for _ in range(MOST_ESCAPED):
        read = _ESCAPE.sub(_character, text)
        if read == text:
            return False
        if _hide(read) != read or SECRET.search(read):
            return True
        text = read
    return True


def _character(match: re.Match[str]) -> str:
    name = match.lastgroup
    if name is None:  # a word over two lines, or with a backslash that a shell takes away
        return ""
    if name in _QUOTED:
        return match[name]
    code = int(match[name], _BASES.get(name, 16))
    return chr(code) if code <= sys.maxunicode else match[0]
