"""Stdout carries data, whoever else prints."""

import subprocess
import sys

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
