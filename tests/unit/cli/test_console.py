"""Stdout carries data, whoever else prints."""

import json
import logging
import os
import subprocess
import sys

import pytest

from reconciler.cli.console import json_pieces, set_up_logging, spelled

NOISY = """
import ctypes, sys
from reconciler.cli.console import reserve_stdout, write
reserve_stdout()
library = ctypes.CDLL(None)
library.puts(b"noise")
write("data")
library.fflush(None)
"""


def test_what_a_library_prints_goes_to_stderr() -> None:
    finished = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, check=True)
    assert (finished.stdout, finished.stderr) == ("data\n", "noise\n")


def test_with_stderr_closed_data_still_arrives() -> None:
    script = f"import os\nos.close(2)\n{NOISY}"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "data\n" in finished.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_arrows_keeps_its_columns(encoding: str) -> None:
    text = " ▲ llama  3 → 5           12.0 → 30.0 req/s  −3.10\n ⇄ 模型   A100 → H100\n"
    assert spelled(text, encoding) == " ^ llama  3 -> 5          12.0 -> 30.0 req/s -3.10\n ~ ??   A100 -> H100\n"
    assert spelled(text, "utf-8") == text


def test_json_stays_json_where_stdout_is_ascii() -> None:
    script = "from reconciler.cli.console import write_json; write_json({'name': '模型 →'})"
    command = [sys.executable, "-c", script]
    finished = subprocess.run(
        command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert json.loads(finished.stdout.decode("ascii")) == {"name": "模型 →"}


def test_lines_of_json_logs_share_the_id_of_their_command(capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for _ in range(2):
        set_up_logging(quiet=False, verbose=0, as_json=True)
        for word in ("one", "two"):
            logging.getLogger("reconciler.test").warning(word)
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert [line["message"] for line in lines] == ["one", "two"]
        runs.append({line["run"] for line in lines})
    first, second = runs
    assert len(first) == len(second) == 1
    assert first.isdisjoint(second)


@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize(
    "content",
    [
        {},
        {"a": [], "b": {}, "c": None},
        {"é": '→ \u2028 "\\/\n', "numbers": [0.1, -0.0, 1e16, 1e-7, 10**20, True]},
        {"before": 1, "groups": [{"name": "a", "list": [[], [1]]}, {}], "after": {"x": {"y": [1, 2]}}},
    ],
    ids=str,
)
def test_json_in_pieces_is_what_the_standard_library_writes(content: dict[str, object], *, is_ascii: bool) -> None:
    made = {name: iter(value) if isinstance(value, list) else value for name, value in content.items()}
    wanted = json.dumps(content, indent=2, ensure_ascii=is_ascii) + "\n"

    assert "".join(json_pieces(content, is_ascii=is_ascii)) == wanted
    assert "".join(json_pieces(made, is_ascii=is_ascii)) == wanted


@pytest.mark.parametrize("is_ascii", [True, False])
def test_half_a_pair_of_utf_16_is_escaped_in_json(*, is_ascii: bool) -> None:
    content = {"a": {"b": "\ud83d →"}}

    assert "".join(json_pieces(content, is_ascii=is_ascii)) == json.dumps(content, indent=2) + "\n"
