"""Commands that people wait for bring no library that they do not use."""

import subprocess
import sys
from pathlib import Path

HEAVY = (
    "numpy",
    "scipy",
    "jinja2",
    "git.cmd",
    "reconciler.config.schema",
    "reconciler.policy.judging",
    "reconciler.report.pull_request",
    "reconciler.resources.aibrix.services",
    "reconciler.resources.dynamo.graphs",
    "reconciler.resources.kaito.workspaces",
    "reconciler.resources.kuberay.ray_services",
    "reconciler.resources.nim.nim_services",
    "reconciler.resources.kthena.policy_specs",
    "reconciler.resources.llmaz.models",
    "reconciler.resources.kserve.inference_services",
)
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


def test_the_schemas_of_a_family_come_with_its_first_object(tmp_path: Path) -> None:
    manifest = tmp_path / "policy.yaml"
    manifest.write_text(
        "apiVersion: workload.serving.volcano.sh/v1alpha1\nkind: AutoscalingPolicy\nmetadata: {name: a}\nspec: {}\n"
    )
    command = [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), "validate", str(manifest)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1].split() == ["heavy:", "reconciler.resources.kthena.policy_specs"], done.stdout
