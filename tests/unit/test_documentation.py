"""Documentation that cannot rot: what the program knows is compared with the pages that say it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.console import Exit
from reconciler.cli.main import app, invoke
from reconciler.cli.setting_rows import spell
from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import check_settings
from reconciler.config.schema import configuration_schema
from reconciler.domain.variant_settings import SETTING_DEFINITIONS, SettingDefinition, ValueKind
from reconciler.resources.annotations import PREFIX

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / ".github" / "docs" / "configuration.md").read_text()
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / ".github").rglob("*.md"))]
LAYERS_OF_VARIANT_SETTINGS = ("defaults.", "models[].", "overrides[].", "workloads[].")
DEMO_DIRECTORY = "/tmp/reconciler-demo"


def rows_below(heading: str) -> Iterator[list[str]]:
    """The cells of each row of a section's tables, heads left out; a pipe of the text has a backslash before it."""
    section = re.split(rf"^## {re.escape(heading)}$", REFERENCE, flags=re.MULTILINE)[1]
    lines = re.split(r"^## ", section, flags=re.MULTILINE)[0].splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and not following.startswith("|--"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def code_in(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def flags_in(text: str) -> set[str]:
    return {word for code in code_in(text) for word in code.split() if word.startswith("-")}


def commands() -> Mapping[str, Any]:
    return app.commands


def options_of(command: Any) -> Iterator[Any]:
    return (each for each in command.params if each.param_type_name == "option" and each.name != "help")


def resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node:
        return node
    return {**schema["$defs"][node["$ref"].rsplit("/", 1)[-1]], **node}


def schema_keys(node: Mapping[str, Any], schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of the configuration file as `models[].profiles[].alpha`, with its default; secrets end a path."""
    node = resolved(node, schema)
    if node.get("title") and path:
        yield path, node.get("default")
    if "properties" in node and set(node["properties"]) != {"file", "env"}:
        for key, child in node["properties"].items():
            yield from schema_keys(child, schema, f"{path}.{key}".lstrip("."))
    for member in node.get("oneOf", ()):  # a mapping in the place of a word
        yield from ((key, default) for key, default in schema_keys(member, schema, path) if key != path)
    if isinstance(node.get("items"), dict) and "$ref" in node["items"]:
        for key, child in resolved(node["items"], schema)["properties"].items():
            yield from schema_keys(child, schema, f"{path}[].{key}")


def documented_settings() -> dict[str, str]:
    """The key of each row of the settings, with its default."""
    return {cells[0].strip("`"): cells[2] for cells in rows_below("Settings") if cells[0].startswith("`")}


def known_settings() -> dict[str, Any]:
    schema = configuration_schema()
    keys = dict(schema_keys(schema, schema))
    shared = {key.removeprefix("defaults.") for key in keys if key.startswith("defaults.")}
    shared |= {setting.name for setting in SETTING_DEFINITIONS if setting.is_of_workloads}
    return {_shorten(key, shared): default for key, default in keys.items()}


def _shorten(key: str, shared: set[str]) -> str:
    """Variant settings are documented once for the three places where they may stand."""
    for layer in LAYERS_OF_VARIANT_SETTINGS:
        if key.startswith(layer) and key.removeprefix(layer) in shared:
            return key.removeprefix(layer)
    return key


def test_every_setting_is_documented_and_nothing_else() -> None:
    assert set(documented_settings()) == set(known_settings())


def test_every_default_is_documented() -> None:
    documented = documented_settings()
    for key, default in known_settings().items():
        values = default if isinstance(default, list) else [] if default is None else [default]
        expected = {f"{value:g}" if isinstance(value, float) else str(value) for value in values}
        expected = {text.lower() if text in {"True", "False"} else text for text in expected}
        assert expected <= code_in(documented[key]), key


SETTING_PATH = re.compile(r"`([a-z][A-Za-z]*(?:\[\])?(?:\.[a-z][A-Za-z]*(?:\[\])?)+)`")


def named_settings(page: str) -> set[str]:
    """What a page names in code with the form of a setting, below a key that there is."""
    heads = {key.partition(".")[0] for key in known_settings() if "." in key}
    return {word for word in SETTING_PATH.findall(page) if word.partition(".")[0] in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_a_setting_that_is_not_there(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    known = set(known_settings())
    mappings = {each for each in known if not any(other.startswith(f"{each}.") for other in known)}  # of free names
    named = named_settings(page.read_text())
    assert {each for each in named if each not in known and each.rpartition(".")[0] not in mappings} == set()


TASKS = {
    "try it without a cluster": "README.md",
    "get a first pull request": ".github/docs/start/README.md",
    "scrape what it needs": ".github/docs/scraping.md",
    "adopt a Deployment": ".github/docs/workloads.md",
    "run it as a CronJob": ".github/docs/running.md",
    "find out why nothing happens": ".github/docs/troubleshooting.md",
    "let small steps merge by themselves": "policies/README.md",
    "set a latency target": ".github/docs/configuration.md",
    "be alerted": ".github/docs/monitoring.md",
    "stop it at once": ".github/docs/operations.md",
    "get rid of it again": ".github/docs/moving.md",
    "know what it may reach": ".github/SECURITY.md",
}


def within_two_clicks() -> set[str]:
    """The pages that links lead to from README, and from those."""
    reached = {"README.md"}
    for _ in range(2):
        for page in tuple(reached):
            if page.endswith(".md"):
                links = re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", (ROOT / page).read_text())
                local = (ROOT / page).parent
                reached |= {
                    str((local / link).resolve().relative_to(ROOT)) for link in links if not link.startswith("http")
                }
    return reached


def test_a_newcomer_finds_the_page_of_each_task_within_two_clicks() -> None:
    assert set(TASKS.values()) <= within_two_clicks()


def documented_kind(setting: SettingDefinition[Any]) -> str:
    words = [f"`{choice}`" for choice in setting.choices]
    return ", ".join(words if setting.kind is ValueKind.WORD else [*words, setting.kind])


@pytest.mark.parametrize("setting", SETTING_DEFINITIONS, ids=lambda setting: setting.name)
def test_every_variant_setting_is_documented_as_it_is_defined(setting: SettingDefinition[Any]) -> None:
    default = setting.default_words or f"`{spell(setting.kind, setting.default)}`"
    row = f"| `{setting.name}` | {documented_kind(setting)} | {default} | "
    assert [line for line in REFERENCE.splitlines() if line.startswith(row)], f"expected a row that begins: {row}"


@pytest.mark.parametrize("setting", SETTING_DEFINITIONS, ids=lambda setting: setting.name)
def test_the_words_of_a_variant_setting_name_its_default(setting: SettingDefinition[Any]) -> None:
    default = setting.default_words or spell(setting.kind, setting.default)
    assert f"(= {default.replace('`', '')})" in setting.words or setting.default == ""


def documented_commands() -> dict[str, list[str]]:
    return {cells[0].strip("`").split()[0]: cells for cells in rows_below("Commands") if cells[0][1] != "-"}


def documented_common_flags() -> set[str]:
    return {flag for cells in rows_below("Commands") if cells[0][1] == "-" for flag in flags_in(cells[0])}


def test_every_command_is_documented_and_nothing_else() -> None:
    assert set(documented_commands()) == set(commands())


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_flag_of_a_command_is_documented(name: str) -> None:
    own = flags_in(documented_commands()[name][2])
    flags = {flag for option in options_of(commands()[name]) for flag in option.opts}
    assert flags <= own | documented_common_flags()
    assert own <= flags, "documented, but the command does not have it"


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_output_of_a_command_is_documented(name: str) -> None:
    metavars = [option.metavar for option in options_of(commands()[name]) if "--output" in option.opts]
    assert [documented_commands()[name][3].replace(", ", "|")] == (metavars or ["text"])


def test_every_command_has_help() -> None:
    for name, command in commands().items():
        assert command.help, name


def test_every_exit_code_is_documented() -> None:
    assert [cells[0] for cells in rows_below("Exit codes")] == [str(int(code)) for code in Exit]


def test_every_environment_variable_is_documented() -> None:
    named = {word for cells in rows_below("Environment") for word in code_in(" ".join(cells)) if word.isupper()}
    read = {option.envvar for command in commands().values() for option in options_of(command) if option.envvar}
    for path in (ROOT / "reconciler").rglob("*.py"):
        read |= set(re.findall(r'"((?:RECONCILER_|GITHUB_|NO_COLOR|FORCE_COLOR|REQUESTS_)[A-Z_]*)"', path.read_text()))
    read -= {"RECONCILER_"}
    assert read <= named
    own = {name for name in named if name.startswith("RECONCILER_")}
    assert own <= read | {f"{name}_FILE" for name in read if name.endswith(("_TOKEN", "_KEY"))}, "nothing reads it"


def test_every_annotation_is_documented() -> None:
    rows = {cells[0].strip("`"): cells[1].partition("`;")[0].strip("`") for cells in rows_below("Annotations")}
    assert rows == {PREFIX + each.annotation: each.name for each in SETTING_DEFINITIONS if each.annotation}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("https://", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_configuration_are_valid(page: Path) -> None:
    shown = r"```yaml\n(apiVersion: reconciler\.io[^\n]*\nkind: Configuration\n.*?)```"
    for example in re.findall(shown, page.read_text(), flags=re.DOTALL):
        found = check_settings(
            repository_file=example.encode(),
            read_repository_file=lambda _: None,
            flags=Flags(),
            environment=Environment(),
        )
        assert found == ()


def test_commands_that_readme_shows_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", README, flags=re.MULTILINE)) <= targets
    assert set(re.findall(r"^reconciler ([a-z]+)", README, flags=re.MULTILINE)) <= set(commands())


def test_readme_shows_what_the_demo_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    invoke(["demo", "--directory", str(tmp_path)])
    printed = capsys.readouterr().out.replace(str(tmp_path), DEMO_DIRECTORY)
    plan = printed.partition("\n\nPull request #")[0]
    assert f"```text\n{plan}\n```" in README, f"in README, show what `make demo` prints:\n{plan}"


def test_pages_name_many_settings() -> None:
    assert len({each for page in PAGES for each in named_settings(page.read_text())}) > 40, (
        "the check above looks at few"
    )
