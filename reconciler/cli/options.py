"""The options that every command has, defined once and merged into each command's own."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_type_hints

import typer

from reconciler.cli.logs import set_up_logging

if TYPE_CHECKING:
    from reconciler.pipeline.session import Wanted

ColorChoice = Literal["auto", "always", "never"]
LogFormat = Literal["text", "json"]
ENVIRONMENT = "RECONCILER_"
EVERYWHERE = "The same everywhere"

Repo = Annotated[
    str,
    typer.Option(
        "--repo", metavar="URL|DIR", envvar=f"{ENVIRONMENT}REPO", show_envvar=False, rich_help_panel=EVERYWHERE
    ),
]
ConfigFiles = Annotated[
    list[Path],
    typer.Option(
        "--config",
        metavar="FILE",
        envvar=f"{ENVIRONMENT}CONFIG",
        show_envvar=False,
        help="Read after the repository's reconciler.yaml: the operator has the last word. Repeatable.",
        rich_help_panel=EVERYWHERE,
    ),
]
Base = Annotated[
    str,
    typer.Option(
        "--base",
        metavar="REF",
        envvar=f"{ENVIRONMENT}BASE",
        show_envvar=False,
        help="What is read: HEAD of a directory, git.baseBranch of a URL.",
        rich_help_panel=EVERYWHERE,
    ),
]
Clusters = Annotated[
    list[str],
    typer.Option(
        "--cluster",
        metavar="NAME",
        envvar=f"{ENVIRONMENT}CLUSTER",
        show_envvar=False,
        help="Only this cluster. Repeatable.",
        rich_help_panel=EVERYWHERE,
    ),
]
Prometheus = Annotated[
    str,
    typer.Option(
        "--prometheus",
        metavar="URL",
        envvar=f"{ENVIRONMENT}PROMETHEUS",
        show_envvar=False,
        help="The Prometheus of one cluster; its token: RECONCILER_PROMETHEUS_TOKEN.",
        rich_help_panel=EVERYWHERE,
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FORMAT", envvar=f"{ENVIRONMENT}OUTPUT", show_envvar=False, rich_help_panel=EVERYWHERE
    ),
]
Color = Annotated[
    ColorChoice, typer.Option("--color", envvar=f"{ENVIRONMENT}COLOR", show_envvar=False, rich_help_panel=EVERYWHERE)
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        envvar=f"{ENVIRONMENT}QUIET",
        show_envvar=False,
        help="Errors only.",
        rich_help_panel=EVERYWHERE,
    ),
]
Verbose = Annotated[
    int,
    typer.Option("--verbose", "-v", count=True, help="More; -vv shows each request.", rich_help_panel=EVERYWHERE),
]
Logs = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar=f"{ENVIRONMENT}LOG_FORMAT", show_envvar=False, rich_help_panel=EVERYWHERE),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What the options that every command has were set to."""

    repo: Repo = "."
    config: ConfigFiles
    base: Base = ""
    cluster: Clusters
    prometheus: Prometheus = ""
    output: Output = "text"
    color: Color = "auto"
    quiet: Quiet = False
    verbose: Verbose = 0
    log_format: Logs = "text"

    @property
    def wanted(self) -> "Wanted":
        """What of them says which doors to open."""
        from reconciler.pipeline.session import Wanted

        return Wanted(
            repo=self.repo,
            base=self.base,
            config_files=tuple(self.config),
            clusters=tuple(self.cluster),
            prometheus=self.prometheus,
        )


_DEFAULTS: Mapping[str, object] = {"config": [], "cluster": []}


Command = Callable[..., int]


def with_common(*, outputs: tuple[str, ...], default: str = "text") -> Callable[[Command], Command]:
    """Give a command function that takes `common: Common` first all common options, and check its `--output`.

    The command line library reads signatures, so the merged one is what it is shown.
    """

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = [each for name, each in inspect.signature(command).parameters.items() if name != "common"]
        shared = get_type_hints(Common, include_extras=True)
        parameters = [
            *(each.replace(annotation=hints[each.name]) for each in own),
            *(_parameter(each.name, shared[each.name], outputs, default) for each in fields(Common)),
        ]

        @functools.wraps(command)
        def merged(**options: object) -> int:
            common = Common(**{each.name: options.pop(each.name) for each in fields(Common)})  # type: ignore[arg-type]  # checked by the command line library
            if common.output not in outputs:
                raise typer.BadParameter(f"{common.output!r} is not one of {', '.join(outputs)}", param_hint="--output")
            set_up_logging(quiet=common.quiet, verbose=common.verbose, as_json=common.log_format == "json")
            return command(common, **options)

        merged.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]  # read by the command line library
        merged.__annotations__ = {each.name: each.annotation for each in parameters}
        return merged

    return decorate


def _parameter(name: str, annotation: object, outputs: tuple[str, ...], default: str) -> inspect.Parameter:
    standard = {**{each.name: each.default for each in fields(Common)}, **_DEFAULTS, "output": default}
    if name == "output":
        annotation = Annotated[
            str,
            typer.Option(
                "--output",
                "-o",
                metavar="|".join(outputs),
                envvar=f"{ENVIRONMENT}OUTPUT",
                show_envvar=False,
                rich_help_panel=EVERYWHERE,
            ),
        ]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=standard[name], annotation=annotation)
