"""The command `reconciler`: commands, exit codes, and errors as sentences."""

import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

import click

from reconciler.cli.backtest import backtest
from reconciler.cli.console import Exit, complain, exit_for, reserve_stdout
from reconciler.cli.demo import demo
from reconciler.cli.doctor import doctor
from reconciler.cli.explain import explain
from reconciler.cli.fit import fit
from reconciler.cli.init import init
from reconciler.cli.options import flag
from reconciler.cli.plan import plan
from reconciler.cli.policy import policy
from reconciler.cli.prior import prior
from reconciler.cli.review import review
from reconciler.cli.run import run
from reconciler.cli.schema import schema
from reconciler.cli.validate import validate
from reconciler.errors import ReconcilerError
from reconciler.pipeline.process import set_up_process

logger = logging.getLogger(__name__)

STOPPED = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
BUG = "this is a bug in the reconciler, please report it with the lines below"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
AFTER_STOP = "stopped; temporary files are gone; what was published stays, and the next run goes on from there"

HELP_WIDTH = 100

EXAMPLES: Mapping[Callable[..., int], Sequence[str]] = {
    run: ("run --repo https://github.com/OWNER/FLEET.git", "run --repo . --record run.zip --fail-when-held"),
    plan: ("plan --prometheus http://127.0.0.1:9090", "plan --replay run.zip -o markdown"),
    explain: ("explain chat/llama-8b", "explain chat/llama-8b --replay run.zip -o json"),
    validate: ("validate --strict", "validate clusters/prod/llama.yaml"),
    review: ("review --base origin/main --head origin/scale-llama", "review --comment", "review --open --fail-on slo"),
    policy: ("policy test", "policy explain chat/llama-8b", "policy simulate monday.zip tuesday.zip"),
    doctor: ("doctor --repo https://github.com/OWNER/FLEET.git", "doctor -o json"),
    fit: ('fit "meta-llama/*" --write .reconciler/profiles.yaml',),
    prior: ("prior meta-llama/Llama-3.1-8B-Instruct H200 2xA100", "prior meta-llama/Llama-3.1-8B-Instruct -o json"),
    backtest: ("backtest --prometheus http://127.0.0.1:9090", "backtest --replay run.zip --keep days -o json"),
    init: ("init --prometheus http://127.0.0.1:9090 --github-action", "init --cronjob --argocd --check"),
    schema: ("schema configuration",),
    demo: ("demo", "demo --directory sample"),
}
CODES = """\b
Exit codes:
  0  finished; held variants are reported, that is not an error
  2  finished, and there are changes (--detailed-exitcode, init --check)
  3  finished, but an input needs fixing
  4  Prometheus, git or the forge failed; the next run may succeed
  5  the command line, configuration or credentials are wrong"""


def print_version(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    """Print the version, and leave."""
    if is_asked:
        from reconciler import __version__
        from reconciler.cli.console import write

        write(f"reconciler {__version__}")
        context.exit()


class CommandsInOrder(click.Group):
    """Lists commands as they are used, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)


@click.group(
    cls=CommandsInOrder,
    no_args_is_help=True,
    epilog="Run reconciler COMMAND --help for options, examples and exit codes.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
)
@flag("--version", is_eager=True, expose_value=False, callback=print_version, help="Print the version.")
def app() -> None:
    """Right-size LLM inference on Kubernetes from Git and Prometheus, by pull request."""


for command, examples in EXAMPLES.items():
    lines = "\n".join(f"  reconciler {example}" for example in examples)
    app.command(name=command.__name__, epilog=f"\b\nExamples:\n{lines}\n\n{CODES}")(command)


def main() -> None:
    """Run the command line and leave with its exit code."""
    set_up_process()
    reserve_stdout()
    for number in STOPPED:
        signal.signal(number, _stop)
    code = invoke(sys.argv[1:])
    if code in STOPPED.values():  # what still waits for a server in a thread would keep the process for a minute
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    try:
        sys.stdout.flush()
    except OSError:  # without room for it, as was said: Python would try again, and exit with 120
        os._exit(code)
    sys.exit(code)


class _Stopped(BaseException):
    """A signal to stop, as an exception: what was opened is closed on the way out."""

    def __init__(self, number: int) -> None:
        self.number = number


def _stop(number: int, _frame: object) -> None:
    for each in STOPPED:
        signal.signal(each, signal.SIG_IGN)
    raise _Stopped(number)


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code by the documentation's table, whatever is raised."""
    try:
        code = app(args=list(arguments), standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except _Stopped as stopped:
        complain(f"{signal.Signals(stopped.number).name}: {AFTER_STOP}")
        return STOPPED[signal.Signals(stopped.number)]
    except click.UsageError as error:
        error.show()
        return Exit.CONFIGURATION
    except ReconcilerError as error:
        from reconciler.cli.findings import tell_failure

        complain(str(error))
        tell_failure(str(error))
        return exit_for(error)
    except BrokenPipeError:
        return Exit.FINISHED
    except OSError as error:
        if error.errno not in NO_ROOM:
            logger.exception(BUG)
            return Exit.BUG
        complain(f"{error.filename or 'output'}: {error.strerror}")
        return Exit.TRANSIENT
    except Exception:
        logger.exception(BUG)
        return Exit.BUG
    return int(code or 0)
