"""`reconciler schema [configuration|policy]`: JSON Schema for editors."""

from typing import Annotated, Literal

import typer

from reconciler.cli.options import READING, Common, with_common

What = Annotated[
    Literal["configuration", "policy"],
    typer.Argument(metavar="[configuration|policy]", show_default=False, help="The kind of file."),
]
ACTS_ON_NOTHING = (*READING, "output", "color", "quiet", "verbose", "log_format")


@with_common(outputs=("json",), without=ACTS_ON_NOTHING, default="json")
def schema(common: Common, what: What = "configuration") -> int:
    """Print a JSON Schema for editors."""
    from reconciler.cli.console import write_json
    from reconciler.config.schema import configuration_schema, policy_schema

    del common
    write_json(configuration_schema() if what == "configuration" else policy_schema())
    return 0
