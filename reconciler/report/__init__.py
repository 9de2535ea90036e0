"""PURE. What a reviewer reads, built from the nouns alone: the same number reads the same in every output.

Numbers become words here and nowhere else; templates place those words, terminals print them.
"""

from reconciler.report.document import decision_json, plan_json
from reconciler.report.entries import EntriesView, entries_view
from reconciler.report.explain import SettingRow, explain_json, explain_text
from reconciler.report.pull_request import (
    CommitView,
    PullRequestView,
    commit_view,
    plan_view,
    pull_request_view,
    reductions,
)
from reconciler.report.status import StatusOmission, StatusView, status_view
from reconciler.report.text import plan_text

__all__ = [
    "CommitView",
    "EntriesView",
    "PullRequestView",
    "SettingRow",
    "StatusOmission",
    "StatusView",
    "commit_view",
    "decision_json",
    "entries_view",
    "explain_json",
    "explain_text",
    "plan_json",
    "plan_text",
    "plan_view",
    "pull_request_view",
    "reductions",
    "status_view",
]
