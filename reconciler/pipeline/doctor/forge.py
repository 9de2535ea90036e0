"""Checks of the forge: whether it lets us in, what our credential may do there, and which rules stand in the way."""

from collections.abc import Iterator
from datetime import UTC, datetime

from reconciler.domain.reported.checkup import Cause, Check, warning, well
from reconciler.errors import ReconcilerError
from reconciler.forge.pull_requests import Forge
from reconciler.forge.rights import Rights
from reconciler.pipeline.doctor.failures import failed, failed_by

FORGE = "forge"
EXPIRES_SOON_S = 30 * 86_400.0
TOKEN = "the token of RECONCILER_FORGE_TOKEN"  # noqa: S105 - words, not a token


def check_forge(forge: Forge, *, base: str, prefix: str, merges: bool, now_s: float) -> Iterator[Check]:
    """What a run needs of the forge; `prefix` begins the names of our head branches, `now_s` is Unix time.

    `merges`: something is to merge by itself.
    """
    try:
        forge.check_access()
        rights = forge.rights(base=base, head=f"{prefix}doctor")
    except ReconcilerError as error:
        yield failed_by(FORGE, "forge-access", error)
        return
    merging = _merging(rights) if merges else ()
    troubles = [*_missing(rights), *merging, *_rules(rights, base=base, prefix=prefix), *_expiry(rights, now_s)]
    yield from troubles
    if not troubles:
        yield well(FORGE, "forge-rights", f"{forge.name}, {_allowed(rights)}")


def _missing(rights: Rights) -> Iterator[Check]:
    if rights.may_open is False:
        yield failed(
            FORGE,
            "open-pull-requests",
            "no pull request may be opened",
            rights.cures.opening.replace("TOKEN", TOKEN),
            cause=Cause.CONFIGURATION,
        )
    if rights.may_label is False:
        yield warning(
            FORGE,
            "label-pull-requests",
            "pull requests may not be labelled",
            f"{rights.cures.labelling.replace('TOKEN', TOKEN)}, or take pullRequests.labels out of reconciler.yaml",
        )


def _merging(rights: Rights) -> Iterator[Check]:
    """What keeps from merging what is to merge by itself."""
    if rights.may_merge is False:
        words = "rules let pull requests merge by themselves, which our credential may not do"
        yield warning(FORGE, "merge-pull-requests", words, rights.cures.merging.replace("TOKEN", TOKEN))
    elif rights.allows_auto_merge is False:
        words = "auto-merge is switched off: what waits for rules of the base is merged by a later run"
        yield warning(FORGE, "auto-merge", words, rights.cures.scheduling)


def _rules(rights: Rights, *, base: str, prefix: str) -> Iterator[Check]:
    if rights.refusals:
        yield warning(
            FORGE,
            "branch-rules",
            f"rules on branches {prefix}* would refuse what we push: {', '.join(rights.refusals)}",
            f"{rights.cures.refusals}, or set git.branchPrefix in reconciler.yaml to one that is left alone",
        )
    if rights.drops_approvals:
        yield warning(
            FORGE,
            "dropped-approvals",
            f"{base} drops approvals on every push",
            "lower pullRequests.limits.pushesPerHour in reconciler.yaml, merge soon after approving, or label what is "
            "approved stop-updating: nothing is pushed to it then",
        )
    if rights.needs_signatures:
        yield warning(
            FORGE,
            "signed-commits",
            f"{base} takes signed commits only, and ours have no signature",
            rights.cures.signatures,
        )


def _expiry(rights: Rights, now_s: float) -> Iterator[Check]:
    """A job that nobody looks at ends silently when its credential does."""
    if rights.expires_at_s is None or rights.expires_at_s - now_s > EXPIRES_SOON_S:
        return
    day = datetime.fromtimestamp(rights.expires_at_s, UTC).date()
    yield warning(FORGE, "credential-expires", f"{TOKEN} ends on {day}", rights.cures.expiry.replace("TOKEN", "it"))


def _allowed(rights: Rights) -> str:
    told = {"open": rights.may_open, "label": rights.may_label, "merge": rights.may_merge}
    may = " and ".join(filter(None, (", ".join(name for name, allowed in told.items() if allowed),)))
    unknown = ", ".join(name for name, allowed in told.items() if allowed is None)
    parts = [f"may {may} pull requests" if may else "", f"not told whether it may {unknown}" if unknown else ""]
    if rights.allows_auto_merge is not None:
        parts.append(f"auto-merge is {'allowed' if rights.allows_auto_merge else 'switched off'}")
    return ", ".join(filter(None, parts))
