"""The options that every command has, defined once and merged into each command's own."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from reconciler.cli.console import ColorChoice, set_up_logging
from reconciler.domain.records import dataclass

if TYPE_CHECKING:
    from reconciler.config.environment import Flags


LogFormat = Literal["text", "json"]
Command = Callable[..., int]
Decorator = Callable[[Command], Command]

ENVIRONMENT = "RECONCILER_"
READING = ("repo", "config", "base", "cluster", "prometheus")
"""Options that say where everything is read from."""

shard_option = click.option(
    "--shard",
    metavar="INDEX/COUNT",
    envvar=f"{ENVIRONMENT}SHARD",
    help="Only this part of the fleet: 0/4 to 3/4 are all of it.",
)
PATH = click.Path(path_type=Path)
flag = functools.partial(click.option, is_flag=True)
path_option = functools.partial(click.option, metavar="FILE", type=PATH)
record_option = path_option("--record", help="Save what was observed to this file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What the options that every command has were set to."""

    repo: str
    config: tuple[Path, ...]
    base: str
    cluster: tuple[str, ...]
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
            config_files=self.config,
            clusters=self.cluster,
            prometheus=self.prometheus,
        )

    def flags_of(self, shard: str | None) -> "Flags":
        """The same for a part of the fleet, as `--shard` has it; None is all of it."""
        from reconciler.domain.records import replace
        from reconciler.domain.shards import Shard

        try:
            return replace(self.flags, shard=None if shard is None else Shard.parse(shard))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--shard") from None


def with_common(*, outputs: tuple[str, ...], default: str = "text", without: tuple[str, ...] = ()) -> Decorator:
    """Give a command function that takes `common: Common` first all common options, and check its `--output`.

    Those in `without` have nothing to act on there: they are taken, so that one set of flags fits every command, and
    not shown. Options of the command's own stand above this and are shown first.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def merged(**options: Any) -> int:
            common = Common(**{each.name: options.pop(each.name) for each in fields(Common)})
            if common.output not in outputs:
                raise click.BadParameter(f"{common.output!r} is not one of {', '.join(outputs)}", param_hint="--output")
            set_up_logging(quiet=common.quiet, verbose=common.verbose, as_json=common.log_format == "json")
            return command(common, **options)

        result: Command = merged
        for option in reversed(list(_common_options("|".join(outputs), default, without))):
            result = option(result)
        return result

    return decorate


def _common_options(outputs: str, default_output: str, hidden: tuple[str, ...]) -> Iterator[Decorator]:
    def option(name: str, *short: str, text: str, is_counted: bool = False, **settings: Any) -> Decorator:
        """Each can be set by RECONCILER_<FLAG> as well, but for the counted one."""
        return click.option(
            f"--{name.replace('_', '-')}",
            *short,
            help=text,
            count=is_counted,
            envvar=None if is_counted else ENVIRONMENT + name.upper(),
            show_default=bool(settings.get("default")),
            hidden=name in hidden,
            **settings,
        )

    yield option("repo", metavar="URL|DIR", default=".", text="The repository.")
    yield option(
        "config", metavar="FILE", type=PATH, multiple=True, text="Read after the repository's own. Repeatable."
    )
    yield option("base", metavar="REF", default="", text="The commit to read (HEAD, or git.baseBranch of a URL).")
    yield option("cluster", metavar="NAME", multiple=True, text="Only this cluster. Repeatable.")
    yield option("prometheus", metavar="URL", default="", text="For one cluster; token: RECONCILER_PROMETHEUS_TOKEN.")
    yield option("output", "-o", metavar=outputs, default=default_output, text="Output format.")
    choices = click.Choice(get_args(ColorChoice))
    yield option("color", type=choices, default="auto", text="Whether text is coloured.")
    yield option("quiet", "-q", is_flag=True, text="Only print errors; data of --output is still printed.")
    text = "Log what is read, queried and decided; -vv: each request."
    yield option("verbose", "-v", is_counted=True, text=text)
    formats = click.Choice(get_args(LogFormat))
    yield option("log_format", type=formats, default="text", text="Format of the logs on stderr.")
