"""`labels` and `reviewers`: what a pull request carries that holds a change, and who is asked about it."""

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import LabelsRule, ReviewersRule, Rule
from reconciler.manifests.wording import join_words
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Accounts, PullRequestLabels
from reconciler.policy.subjects import Change, Spoken


class LabelsSection(KindSection):
    """Labels of the pull requests that hold a change in scope."""

    add: PullRequestLabels
    """a list of labels"""

    def asks(self) -> LabelsRule:
        return LabelsRule(labels=tuple(self.add))


class ReviewersSection(KindSection):
    """Who is asked to review the pull requests that hold a change in scope."""

    request: Accounts
    """a list of accounts, or team:NAME"""

    def asks(self) -> ReviewersRule:
        return ReviewersRule(reviewers=tuple(self.request))


def _label(asks: LabelsRule, rule: Rule, change: Change) -> Spoken:
    del change
    words = f"labelled {join_words(asks.labels, 'and')}"
    return Spoken(rule=rule, kind=VerdictKind.ALLOW, words=words, labels=asks.labels)


def _ask(asks: ReviewersRule, rule: Rule, change: Change) -> Spoken:
    del change
    words = f"{join_words(asks.reviewers, 'and')} to review"
    return Spoken(rule=rule, kind=VerdictKind.ALLOW, words=words, reviewers=asks.reviewers)


LABELS = RuleKind(name="labels", asks=LabelsRule, section=LabelsSection, judge=_label)
REVIEWERS = RuleKind(name="reviewers", asks=ReviewersRule, section=ReviewersSection, judge=_ask)
