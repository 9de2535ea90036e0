"""The options that every command has, defined once and merged into each command's own."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from reconciler.cli.console import ColorChoice, set_up_logging
from reconciler.domain.records import dataclass

if TYPE_CHECKING:
    from reconciler.config.environment import Flags


ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="INDEX/COUNT",
        help="Only this part of the fleet: 0/4 to 3/4 are all of it.",
        envvar="RECONCILER_SHARD",
        show_envvar=False,
        show_default=False,
    ),
]
LogFormat = Literal["text", "json"]
Command = Callable[..., int]

ENVIRONMENT = "RECONCILER_"
READING = ("repo", "config", "base", "cluster", "prometheus")
"""Options that say where everything is read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What the options that every command has were set to."""

    repo: str
    config: list[Path]
    base: str
    cluster: list[str]
    prometheus: str
    output: str
    color: ColorChoice
    quiet: bool
    verbose: int
    log_format: LogFormat

    @property
    def flags(self) -> "Flags":
        """What of them says where everything is read from."""
        from reconciler.config.environment import Flags

        return Flags(
            repo=self.repo,
            base=self.base,
            config_files=tuple(self.config),
            clusters=tuple(self.cluster),
            prometheus=self.prometheus,
        )

    def flags_of(self, shard: str | None) -> "Flags":
        """The same for a part of the fleet, as `--shard` has it; None is all of it."""
        from reconciler.domain.records import replace
        from reconciler.domain.shards import Shard

        try:
            return replace(self.flags, shard=None if shard is None else Shard.parse(shard))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--shard") from None


def with_common(
    *, outputs: tuple[str, ...], default: str = "text", without: tuple[str, ...] = ()
) -> Callable[[Command], Command]:
    """Give a command function that takes `common: Common` first all common options, and check its `--output`.

    Those in `without` have nothing to act on there: they are taken, so that one set of flags fits every command, and
    not shown.

    The command line library reads signatures, so the merged one is what it is shown.
    """

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = [each for name, each in inspect.signature(command).parameters.items() if name != "common"]
        parameters = [
            *(each.replace(annotation=hints[each.name]) for each in own),
            *_common_parameters("|".join(outputs), default, without),
        ]

        @functools.wraps(command)
        def merged(**options: Any) -> int:
            common = Common(**{each.name: options.pop(each.name) for each in fields(Common)})
            if common.output not in outputs:
                raise typer.BadParameter(f"{common.output!r} is not one of {', '.join(outputs)}", param_hint="--output")
            set_up_logging(quiet=common.quiet, verbose=common.verbose, as_json=common.log_format == "json")
            return command(common, **options)

        merged.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]  # read by the command line library
        merged.__annotations__ = {each.name: each.annotation for each in parameters}
        return merged

    return decorate


def _common_parameters(outputs: str, default_output: str, hidden: tuple[str, ...]) -> tuple[inspect.Parameter, ...]:
    _parameter = functools.partial(_option_of, hidden=hidden)
    return (
        _parameter("repo", str, ".", metavar="URL|DIR", text="The repository."),
        _parameter(
            "config",
            list[Path],
            [],
            metavar="FILE",
            text="Read after the repository's own. Repeatable.",
        ),
        _parameter("base", str, "", metavar="REF", text="The commit to read (HEAD, or git.baseBranch of a URL)."),
        _parameter("cluster", list[str], [], metavar="NAME", text="Only this cluster. Repeatable."),
        _parameter(
            "prometheus",
            str,
            "",
            metavar="URL",
            text="For one cluster; token: RECONCILER_PROMETHEUS_TOKEN.",
        ),
        _parameter("output", str, default_output, "-o", metavar=outputs, text="Output format."),
        _parameter("color", ColorChoice, "auto", text="Whether text is coloured."),
        _parameter(
            "quiet",
            bool,
            False,
            "-q",
            text="Only print errors; data of --output is still printed.",
        ),
        _parameter(
            "verbose", int, 0, "-v", text="Log what is read, queried and decided; -vv: each request.", is_counted=True
        ),
        _parameter("log_format", LogFormat, "text", text="Format of the logs on stderr."),
    )


def _option_of(
    name: str,
    kind: object,
    default: object,
    *short: str,
    metavar: str | None = None,
    text: str = "",
    is_counted: bool = False,
    hidden: tuple[str, ...] = (),
) -> inspect.Parameter:
    """One option as a parameter; each can be set by RECONCILER_<FLAG> as well, but for counted ones."""
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        *short,
        metavar=metavar,
        help=text,
        count=is_counted,
        envvar=None if is_counted else ENVIRONMENT + name.upper(),
        show_envvar=False,
        show_default=not is_counted,
        hidden=name in hidden,
    )
    annotation: object = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
