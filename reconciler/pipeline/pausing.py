"""The kill switch: whoever says stop, nothing is written; what would be is still planned and told."""

from reconciler.pipeline.observe import ForgeView

PAUSE_LABEL = "reconciler:paused"
"""On any open pull request under our prefix: whoever may label one can stop us without a commit."""


def find_pause(stated: str, forge: ForgeView) -> str:
    """Who says that nothing may be written, as the end of "paused by"; empty when nobody does.

    `stated` is what configuration and environment say.
    """
    if stated:
        return stated
    labelled = [number for number, each in forge.pull_requests.items() if each.is_open and PAUSE_LABEL in each.labels]
    return f"the label {PAUSE_LABEL} on pull request #{min(labelled)}" if labelled else ""
