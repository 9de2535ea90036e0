"""The ways: what an attacker does to a pull request that is about to be merged, or that a forge is to merge."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.attack.merging.field import MANIFEST, STATUS, Change, Field

ALL = ("github", "gitlab", "local")
HOSTED = ("github", "gitlab")

Attack = Callable[[Field], object]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way, and on which forges it exists."""

    name: str
    attack: Attack
    forges: tuple[str, ...] = ALL


def edited(path: str, old: bytes, new: bytes, mode: str = "100644") -> Attack:
    """Push the branch anew with other words in a file."""

    def attack(place: Field) -> None:
        content = place.show(place.branch, path)
        assert old in content
        place.push(place.commit([(mode, path, content.replace(old, new))]))

    return attack


def added(*changes: Change) -> Attack:
    """Push the branch anew with more files."""
    return lambda place: place.push(place.commit(changes))


def unreadable(place: Field) -> None:
    """A manifest whose object is not in the repository is the last that anybody can read of it."""
    place.push(place.commit([("160000", MANIFEST, b"1" * 40)]))


CONTENTS = (
    Way(name="40 replicas", attack=edited(MANIFEST, b"replicas:   4", b"replicas:   40")),
    Way(name="another image", attack=edited(MANIFEST, b"vllm/vllm-openai:v0.11.0", b"evil/miner:latest")),
    Way(name="another number in the status", attack=edited(STATUS, b"numReplicas: 4", b"numReplicas: 40")),
    Way(name="a comment", attack=edited(MANIFEST, b"kind: Deployment", b"kind: Deployment # reconciler.io/ignore")),
    Way(name="line ends", attack=edited(MANIFEST, b"\n", b"\r\n")),
    Way(name="an executable file", attack=edited(MANIFEST, b"kind", b"kind", "100755")),
    Way(name="an added file", attack=added(("100644", "clusters/prod/evil.yaml", b"kind: ClusterRole\n"))),
    Way(name="a name that is not UTF-8", attack=added(("100644", "clusters/prod/\udcff.yaml", b"kind: Role\n"))),
    Way(name="a workflow", attack=added(("100644", ".github/workflows/x.yml", b"on: push\n"))),
    Way(name="a submodule", attack=added(("160000", "clusters/prod/evil", b"1" * 40))),
    Way(name="a submodule in place of the manifest", attack=unreadable),
    Way(name="a link in place of the manifest", attack=added(("120000", MANIFEST, b"/etc/passwd"))),
)

WAYS = CONTENTS
