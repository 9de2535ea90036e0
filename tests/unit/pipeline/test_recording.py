"""A recording repeats a plan, byte for byte and anywhere; what is none is refused with a sentence."""

import json
import zipfile
from pathlib import Path

import pytest

from reconciler.domain.recording import READ_VERSIONS, RECORDING_VERSION
from reconciler.domain.records import replace
from reconciler.errors import ConfigurationError
from reconciler.pipeline.prepare import Prepared, prepare
from reconciler.pipeline.recording import entries_of, fingerprint, read_recording, write_recording
from reconciler.rendering.renderer import Renderer
from reconciler.report.document import plan_json
from tests.servers.desk import BUSY, PEAK, Desk
from tests.servers.fleet import CHAT_VARIANT

SECRET = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: canary-in-git}\n"


@pytest.fixture
def recorded(desk: Desk) -> tuple[Prepared, Path]:
    """A plan beside an open pull request, a file that cannot be read and one with a Secret; and its recording."""
    desk.run(BUSY)
    desk.write("clusters/prod/broken.yaml", "kind: Deployment\nspec: [\n")
    desk.write("clusters/prod/secret.yaml", CHAT_VARIANT.replace("name: llama", "name: x") + SECRET)
    desk.write("clusters/prod/notes.yaml/README", "Where a new file cannot go\n")
    path = desk.folder / "recording.zip"
    return desk.plan(PEAK, record=path), path


def test_a_replay_is_the_same_plan_with_the_same_edits(recorded: tuple[Prepared, Path]) -> None:
    prepared, path = recorded
    recording = read_recording(path)
    again = prepare(recording, Renderer())
    assert plan_json(again.plan) == plan_json(prepared.plan)
    assert again.edited == prepared.edited
    assert fingerprint(recording) == prepared.plan.recording
    assert recording.obstructed == ("clusters/prod/notes.yaml",)


def test_answers_that_were_read_are_not_decompressed_again_for_the_fingerprint(
    recorded: tuple[Prepared, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, path = recorded
    recording = read_recording(path)
    for answer in recording.answers:
        answer.body.read()
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    assert fingerprint(recording) == prepared.plan.recording


def test_what_is_written_again_is_the_same_file(recorded: tuple[Prepared, Path], tmp_path: Path) -> None:
    _, path = recorded
    write_recording(read_recording(path), tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()


def test_a_recording_says_when_its_commit_was_made(recorded: tuple[Prepared, Path], desk: Desk) -> None:
    made_s = float(desk.workshop.git("log", "-1", "--format=%ct"))
    assert read_recording(recorded[1]).committed_s == made_s


def test_an_older_recording_that_does_not_say_it_is_read_and_keeps_its_fingerprint(
    recorded: tuple[Prepared, Path],
) -> None:
    with zipfile.ZipFile(recorded[1]) as archive:
        header = json.loads(archive.read("recording.json"))
    del header["committed_s"]
    content = json.dumps(header, sort_keys=True, indent=1, ensure_ascii=False).encode()
    older = rewritten(recorded[1], "recording.json", content)
    recording = read_recording(older)
    assert recording.committed_s is None
    assert dict(entries_of(recording))["recording.json"] == content
    assert len(prepare(recording, Renderer()).plan.decisions) == len(recorded[0].plan.decisions)


def test_an_older_recording_does_not_say_when_a_pull_request_was_opened_and_pushed(
    recorded: tuple[Prepared, Path],
) -> None:
    (proposal,) = read_recording(recorded[1]).proposals
    assert proposal.opened_at_s is not None
    assert len(proposal.pushes_s) == 1
    with zipfile.ZipFile(recorded[1]) as archive:
        (shown,) = json.loads(archive.read("proposals.json"))
    del shown["opened_at_s"], shown["pushes_s"]
    content = json.dumps([shown], sort_keys=True, indent=1, ensure_ascii=False).encode()
    older = read_recording(rewritten(recorded[1], "proposals.json", content))
    assert (older.proposals[0].opened_at_s, older.proposals[0].pushes_s) == (None, ())
    assert dict(entries_of(older))["proposals.json"] == content


@pytest.mark.parametrize("count", [0, 1, 3])
def test_pull_requests_are_written_one_by_one_as_one_list(recorded: tuple[Prepared, Path], count: int) -> None:
    recording = read_recording(recorded[1])
    numbered = tuple(replace(recording.proposals[0], number=number) for number in range(count))
    written = dict(entries_of(replace(recording, proposals=numbered)))["proposals.json"]
    shown = json.loads(written)
    assert [each["number"] for each in shown] == list(range(count))
    assert written == json.dumps(shown, sort_keys=True, indent=1, ensure_ascii=False).encode()


def test_a_file_with_a_secret_is_named_in_it_and_nothing_more(recorded: tuple[Prepared, Path]) -> None:
    _, path = recorded
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert b"canary-in-git" not in b"".join(contents.values())
    assert "manifests/clusters/prod/secret.yaml" not in contents
    assert b"clusters/prod/secret.yaml" in contents["recording.json"]


FORMATS = Path(__file__).parents[2] / "testdata" / "recordings"


@pytest.mark.parametrize("version", READ_VERSIONS)
def test_a_file_of_each_format_is_decided_as_then_and_written_again_in_the_newest(version: int, tmp_path: Path) -> None:
    kept = FORMATS / f"format-{version}.zip"
    with zipfile.ZipFile(kept) as archive:
        assert json.loads(archive.read("recording.json"))["version"] == version
        assert (b"body_digest" in archive.read("proposals.json")) == (version == 2)
    recording = read_recording(kept)
    plan = prepare(recording, Renderer()).plan
    desired = {each.variant.name: each.desired.replicas for each in plan.decisions}
    assert desired == {"qwen": 1, "llama": 6, "granite": 1}
    assert [each.number for each in recording.proposals] == [1]
    write_recording(recording, tmp_path / "again.zip")
    with zipfile.ZipFile(tmp_path / "again.zip") as archive:
        assert json.loads(archive.read("recording.json"))["version"] == RECORDING_VERSION
        assert b"body_digest" not in archive.read("proposals.json")
    assert plan_json(prepare(read_recording(tmp_path / "again.zip"), Renderer()).plan) == plan_json(plan)


@pytest.mark.parametrize("version", [1, RECORDING_VERSION + 1])
def test_a_format_that_is_not_known_is_refused_with_what_to_do(recorded: tuple[Prepared, Path], version: int) -> None:
    with zipfile.ZipFile(recorded[1]) as archive:
        header = json.loads(archive.read("recording.json")) | {"version": version}
    other = rewritten(recorded[1], "recording.json", json.dumps(header).encode())
    with pytest.raises(
        ConfigurationError, match=rf"its format is {version}, .* the version of reconciler that recorded"
    ):
        read_recording(other)


def rewritten(path: Path, name: str, content: bytes | None) -> Path:
    """The recording with one entry replaced, or without it."""
    with zipfile.ZipFile(path) as archive:
        entries = {each: archive.read(each) for each in archive.namelist()}
    entries.pop(name)
    other = path.with_name("other.zip")
    with zipfile.ZipFile(other, "w") as archive:
        for each, kept in (entries | ({name: content} if content is not None else {})).items():
            archive.writestr(each, kept)
    return other


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recording.json", None),
        ("recording.json", b"{}"),
        ("recording.json", b"[]"),
        ("recording.json", b"not json"),
        ("recording.json", json.dumps({"version": 999}).encode()),
        ("proposals.json", b'[{"number": "x"}]'),
        ("proposals.json", b'{"a": 1}'),
        ("proposals.json", b"[" * 100_000),
        ("answers/0", None),
    ],
)
def test_a_recording_that_was_tampered_with_is_refused(
    recorded: tuple[Prepared, Path], name: str, content: bytes | None
) -> None:
    with pytest.raises(ConfigurationError, match="not a recording that can be read"):
        read_recording(rewritten(recorded[1], name, content))


def test_an_answer_that_was_damaged_on_its_way_is_told_when_it_is_read(recorded: tuple[Prepared, Path]) -> None:
    _, path = recorded
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("answers/0")
    content = bytearray(path.read_bytes())
    middle = entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2
    content[middle] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="the recording is damaged"):
        prepare(read_recording(path), Renderer())


def test_an_answer_that_unpacks_to_more_than_the_limit_is_refused(
    recorded: tuple[Prepared, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.pipeline.recording.MAX_ENTRY_BYTES", 100)
    with pytest.raises(ConfigurationError, match="larger than"):
        read_recording(recorded[1])


@pytest.mark.parametrize("content", [b"", b"PK", b"hello"])
def test_a_file_that_is_no_zip_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.zip").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"--replay .*r\.zip: not a recording"):
        read_recording(tmp_path / "r.zip")


def test_paths_that_cannot_be_used_are_named(recorded: tuple[Prepared, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--replay .*No such file"):
        read_recording(tmp_path / "missing.zip")
    with pytest.raises(ConfigurationError, match=r"--record .*directory"):
        write_recording(recorded[0].recording, tmp_path)
