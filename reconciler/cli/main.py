"""The command `reconciler`: commands, exit codes, and errors as sentences."""

import logging
import sys
from collections.abc import Sequence

import typer

from reconciler.cli.console import complain, reserve_stdout
from reconciler.cli.demo import demo
from reconciler.cli.exits import Exit, exit_for
from reconciler.cli.explain import explain
from reconciler.cli.fit import fit
from reconciler.cli.plan import plan
from reconciler.cli.run import run
from reconciler.cli.schema import schema
from reconciler.cli.validate import validate
from reconciler.errors import ReconcilerError

logger = logging.getLogger(__name__)

# typer brings a copy of click with it in some releases and the library in others: its own name leads to either.
USAGE_ERROR: type[typer.BadParameter] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="reconciler",
    help="Sizes LLM inference on Kubernetes from Git and Prometheus, and proposes it as pull requests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (run, plan, explain, validate, fit, schema, demo):
    app.command(name=command.__name__)(command)


@app.callback(invoke_without_command=True)
def about(*, version: bool = typer.Option(False, "--version", help="Print the version.")) -> int:
    """Sizes LLM inference on Kubernetes from Git and Prometheus, and proposes it as pull requests."""
    if version:
        from reconciler import __version__
        from reconciler.cli.console import write

        write(f"reconciler {__version__}")
        raise typer.Exit
    return Exit.FINISHED


def main() -> None:
    """Run the command line and leave with its exit code."""
    reserve_stdout()
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code by the documentation's table, whatever is raised."""
    try:
        code = app(args=list(arguments), standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except typer.Exit as leaving:
        return leaving.exit_code
    except USAGE_ERROR as error:
        error.show()
        return Exit.CONFIGURATION
    except ReconcilerError as error:
        complain(str(error))
        return exit_for(error)
    except BrokenPipeError:
        return Exit.FINISHED
    except Exception:
        logger.exception("this is a bug in the reconciler, please report it with the lines below")
        return Exit.BUG
    return int(code or 0)
