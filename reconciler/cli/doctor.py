"""`reconciler doctor`: whether all that a run depends on is well, and what to do where it is not."""

import time

from reconciler.cli.options import Common, with_common


@with_common(outputs=("text", "json"))
def doctor(common: Common) -> int:
    """Check permissions, metrics and variants; suggest fixes."""
    from reconciler.cli.console import exit_of_checks, painted, progress, width, write, write_json
    from reconciler.config.environment import read_environment
    from reconciler.pipeline.doctor import examine
    from reconciler.report.findings import checkup_json, checkup_text

    with progress(quiet=common.quiet) as step:
        checks = tuple(examine(common.flags, read_environment(), lambda: time.time(), step))
    if common.output == "json":
        write_json(checkup_json(checks))
    elif not common.quiet:
        write(painted(common.color, checkup_text(checks, width=width())))
    return exit_of_checks(checks)
