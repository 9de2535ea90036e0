"""`matchLabels` added to PromQL that a person wrote, so that a server with several clusters answers for one."""

import re
from collections.abc import Iterator

TOKEN = re.compile(
    r"""
    (?P<blank>\s+|\#[^\n]*)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
  | (?P<number>[0-9.][0-9a-zA-Z_.]*)
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
OPERATORS = frozenset({"and", "or", "unless", "atan2", "offset", "bool", "inf", "nan", "start", "end"})
AGGREGATIONS = frozenset(
    {"sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile"}
)
WORDS = LABEL_LISTS | OPERATORS | AGGREGATIONS | {"limitk", "limit_ratio"}
Token = tuple[str, str]


def add_matchers(promql: str, where: str) -> str:
    """`promql` with `where` (`cluster="a"`) in every selector; unchanged when `where` is empty.

    Works on words alone: what is no valid PromQL comes out as no valid PromQL, and the server says so.
    """
    if not where:
        return promql
    tokens = [(str(found.lastgroup), found[0]) for found in TOKEN.finditer(promql)]
    return "".join(_rewrite(tokens, where))


def cut_at_or(promql: str) -> Iterator[str]:
    """The operands of each `or` that stands in no brackets, without the labels that it matches on."""
    part, depth, is_first, in_labels = "", 0, False, False
    for kind, text in ((str(found.lastgroup), found[0]) for found in TOKEN.finditer(promql)):
        is_word = kind == "name" and depth == 0
        depth += (text in "([{") - (text in ")]}") if kind == "other" else 0
        if is_word and text.lower() == "or":
            yield part.strip()
            part, is_first = "", True
        elif is_word and is_first and text.lower() in LABEL_LISTS:
            in_labels = True
        elif in_labels:
            in_labels = not (kind == "other" and text == ")" and depth == 0)
        else:
            part += text
            is_first = is_first and kind == "blank"
    yield part.strip()


def _rewrite(tokens: list[Token], where: str) -> Iterator[str]:
    depth = {"[": 0, "{": 0, "labels": 0}
    for index, (kind, text) in enumerate(tokens):
        following = _next_text(tokens, index)
        _track(depth, tokens, index)
        yield text
        if depth["["] or depth["labels"]:
            continue
        if text == "{" and kind == "other":
            yield where + ("" if following == "}" else ",")
        elif kind == "name" and not depth["{"] and text.lower() not in WORDS and following not in ("(", "{"):
            yield f"{{{where}}}"


def _track(depth: dict[str, int], tokens: list[Token], index: int) -> None:
    kind, text = tokens[index]
    if kind != "other":
        return
    if text in "[{":
        depth[text] += 1
    elif text in "]}":
        depth["[" if text == "]" else "{"] -= 1
    elif text == "(" and (depth["labels"] or _previous_text(tokens, index) in LABEL_LISTS):
        depth["labels"] += 1
    elif text == ")" and depth["labels"]:
        depth["labels"] -= 1


def _next_text(tokens: list[Token], index: int) -> str:
    return next((text for kind, text in tokens[index + 1 :] if kind != "blank"), "")


def _previous_text(tokens: list[Token], index: int) -> str:
    return next((text.lower() for kind, text in reversed(tokens[:index]) if kind != "blank"), "")
