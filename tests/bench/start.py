"""How long small commands take, start of the program included."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from reconciler.pipeline.recording import write_recording
from tests.bench.figures import Bench, Figure
from tests.bench.fleet import Fleet
from tests.bench.manifests import repository_files
from tests.bench.observing import observe_fleet
from tests.bench.processes import Spent, run_python

REPEATS = 7
FILES = 10
YARDSTICK = "importing numpy, pydantic, click, yaml"
IMPORTS = "import numpy, pydantic, click, yaml; pydantic.BaseModel"


def measure(bench: Bench) -> Iterator[Figure]:
    """`--help`, `validate` of ten files, `plan --replay` of ten variants."""
    bare = Spent.median_of([run_python("timeit", "-n1", "-r1", IMPORTS) for _ in range(REPEATS)])
    with tempfile.TemporaryDirectory() as directory:
        recording = Path(directory) / "fleet.zip"
        write_recording(observe_fleet(Fleet(10), Path(directory) / "fleet.git").observed.recording, recording)
        files = _write_files(Path(directory) / "files")
        commands = {
            "reconciler --help": ("--help",),
            f"validate of {FILES} files": ("validate", *files),
            "plan --replay of 10 variants": ("plan", "--replay", str(recording)),
        }
        for name, arguments in commands.items():
            found = (0, 3) if arguments[0] == "validate" else (0,)  # classes of other files are missing
            ours, base = bench.paired(
                lambda tree, given=arguments, codes=found: run_python(  # type: ignore[misc]
                    "reconciler", *given, tree=tree, directory=Path(directory), accepted=codes
                ),
                REPEATS,
            )
            yield Figure(
                part="start",
                name=name,
                processor_s=ours.processor_s,
                peak_mib=ours.peak_mib,
                yardstick=YARDSTICK,
                yardstick_s=bare.processor_s,
                base_s=None if base is None else base.processor_s,
            )


def _write_files(folder: Path) -> list[str]:
    """Some files of a fleet in a repository of their own."""
    chosen = [item for item in sorted(repository_files(Fleet(100)).items()) if "models-" in item[0]][:FILES]
    for path, body in chosen:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return [str(folder / path) for path, _ in chosen]


if __name__ == "__main__":
    for each in measure(Bench()):
        sys.stdout.write(each.line() + "\n")
