"""`reconciler schema [configuration|policy]`: JSON Schema for editors."""

from typing import Literal

import click

from reconciler.cli.options import READING, Common, with_common

ACTS_ON_NOTHING = (*READING, "output", "color", "quiet", "verbose", "log_format")


@click.argument(
    "what",
    metavar="[configuration|policy]",
    type=click.Choice(("configuration", "policy")),
    default="configuration",
    help="The kind of file.",
)
@with_common(outputs=("json",), without=ACTS_ON_NOTHING, default="json")
def schema(common: Common, *, what: Literal["configuration", "policy"]) -> int:
    """Print a JSON Schema for editors."""
    from reconciler.cli.console import write_json
    from reconciler.config.schema import configuration_schema, policy_schema

    del common
    write_json(configuration_schema() if what == "configuration" else policy_schema())
    return 0
