"""Addresses of what a text speaks of: a line of a file, a query, a page of the documentation."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from reconciler.domain.plan import Plan
from reconciler.domain.reported.pages import DOCUMENTATION, RULES, AskedPrometheus, Pages
from reconciler.report.plain import one_line

_PLACE = re.compile(r"(?P<path>.+?):(?P<line>[1-9][0-9]{0,8})(?: .*)?")
_PLAIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
LONGEST_ADDRESS = 6000
"""Browsers and servers take more, and a body has better use for its room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A name, and where it leads; without an address it is just the name."""

    text: str
    address: str = ""


def file_link(place: str, pages: Pages, *, text: str = "") -> Link:
    """`path:12` or `path:12 spec.replicas` at the base commit; `text` shows something else for it."""
    found = _PLACE.fullmatch(place)
    if not pages.files_at or found is None:
        return Link(text=text or place)
    return Link(text=text or place, address=f"{pages.files_at}{_encoded(found['path'], also='/')}#L{found['line']}")


def commit_link(commit: str, pages: Pages) -> Link:
    """The base commit by its first seven digits."""
    return Link(text=commit[:7], address=pages.commit_at)


def hold_link(kind: str) -> Link:
    """The page that says what to do about a kind of hold."""
    return Link(text=kind, address=f"{DOCUMENTATION}/holds.md#{_encoded(kind)}") if kind else Link(text="")


def rule_link(rule: str) -> Link:
    """The page that says what each kind of rule does."""
    return Link(text=rule, address=RULES if rule else "")


def query_links(plan: Plan, cluster: str, names: Iterable[str]) -> Iterator[Link]:
    """What was asked of a cluster under these names, as people see it for the day before the decision."""
    asked: AskedPrometheus | None = plan.asked.get(cluster)
    for name in names if asked is not None else ():
        query = asked.queries.get(name, "") if asked is not None else ""
        address = _graph(asked.address, query, plan.now_s) if asked is not None and query else ""
        if address and len(address) <= LONGEST_ADDRESS:
            yield Link(text=one_line(name), address=address)


def _graph(address: str, query: str, now_s: float) -> str:
    moment = datetime.fromtimestamp(now_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    values: Mapping[str, str] = {
        "g0.expr": query,
        "g0.tab": "0",
        "g0.range_input": "1d",
        "g0.end_input": moment,
        "g0.moment_input": moment,
    }
    parameters = "&".join(f"{name}={_encoded(value)}" for name, value in values.items())
    return f"{address.rstrip('/')}/graph?{parameters}"


def _encoded(text: str, *, also: str = "") -> str:
    """`text` as a part of an address: all but letters, digits, `-._~` and `also` as bytes of UTF-8."""
    kept = (_PLAIN + also).encode()
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in text.encode("utf-8", "replace"))
