"""Commands that people wait for bring no library that they do not use."""

import subprocess
import sys
from pathlib import Path

HEAVY = ("numpy", "scipy", "jinja2")
PROGRAM = """
import sys
from reconciler.cli.main import main
try:
    main()
finally:
    print("heavy:", *(name for name in {heavy} if name in sys.modules))
"""


def test_validating_files_needs_no_numbers_and_no_templates(tmp_path: Path) -> None:
    manifest = tmp_path / "deployment.yaml"
    manifest.write_text("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n  replicas: 1\n")
    command = [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), "validate", str(manifest)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1].strip() == "heavy:", done.stdout
