"""Keeps a recording as one zip file, and reads it again: the same bytes give the same snapshot, anywhere.

`recording.json` (version, now, repository, commit, settings, index of answers), `manifests/<path>`, `answers/<n>`
and `proposals.json`; fixed times, sorted names. What may be a secret is replaced.
"""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from reconciler.config import codec
from reconciler.domain.answers import Answer, AnswerStatus, Body, HeldBody, Query
from reconciler.domain.identity import Finding, ResourceKey
from reconciler.domain.proposals import Proposal
from reconciler.domain.recording import (
    READ_VERSIONS,
    RECORDING_VERSION,
    ManifestFile,
    PaidPrices,
    Recording,
    WithheldFile,
    WrittenCounts,
    fingerprint_of,
)
from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError

HEADER, PROPOSALS, MANIFESTS, ANSWERS = "recording.json", "proposals.json", "manifests/", "answers/"
COMMITTED, WRITTEN, PAID, MOVED = "committed_s", "written", "paid", "moved"
OBSTRUCTED = "obstructed"
LATER = ("promises", "opened_at_s", "pushes_s", "reverted_at_s", "merges")
"""What older recordings do not say of a pull request."""
MAX_ENTRY_BYTES = 256 * 1024 * 1024
DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, TypeError, RuntimeError, ConfigurationError)
"""What reading a hostile zip file and the JSON in it raises: encryption and deep nesting are runtime errors."""
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(slots=True, kw_only=True)
class ZippedBody:
    """An answer inside a recording that is in memory compressed; decompressed when it is read.

    All answers share one open archive: opening it reads its index, which has an entry for every manifest. The sha256
    of what was read is kept: who asks for it afterwards need not decompress it again.
    """

    archive: zipfile.ZipFile
    name: str
    sha256: str = ""

    def read(self) -> bytes:
        """The raw bytes of the answer; ConfigurationError when they are not what was once written."""
        try:
            content = self.archive.read(self.name)
        except DAMAGES as error:
            raise ConfigurationError(f"--replay: the recording is damaged ({error})") from error
        self.sha256 = self.sha256 or _sha256(content)
        return content


def entries_of(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Every entry of the file with its content, one answer at a time."""
    yield from _entries_before_answers(recording)
    for number, answer in enumerate(recording.answers):
        yield f"{ANSWERS}{number}", answer.body.read()


def _entries_before_answers(recording: Recording) -> Iterator[tuple[str, bytes]]:
    # Most runs record nothing, and its expressions take long to compile.
    from reconciler.pipeline.confidential import without_secrets

    yield HEADER, _dump(_header(recording))
    yield PROPOSALS, _dump_each(map(_proposal, recording.proposals))
    for manifest in without_secrets(recording.manifests):
        yield MANIFESTS + manifest.path, manifest.body


def fingerprint(recording: Recording) -> str:
    """The recording's identity: the same for the run that made it and for every replay."""
    digests = [(name, _sha256(content)) for name, content in _entries_before_answers(recording)]
    bodies = (answer.body for answer in recording.answers)
    return fingerprint_of([*digests, *((f"{ANSWERS}{number}", _digest(body)) for number, body in enumerate(bodies))])


def _digest(body: Body) -> str:
    known = body.sha256 if isinstance(body, ZippedBody) else ""
    return known or _sha256(body.read())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_recording(recording: Recording, path: Path) -> None:
    """Write the file; raises ConfigurationError when the path cannot be written."""
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(entries_of(recording), key=lambda entry: entry[0]):
                archive.writestr(zipfile.ZipInfo(name, _FIXED_TIME), content, zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise ConfigurationError(f"--record {path}: {error.strerror or error}") from error


def read_recording(path: Path) -> Recording:
    """Read a recording; raises ConfigurationError for a file that is none, or of a format not known here."""
    try:
        return parse_recording(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"--replay {path}: {error.strerror or error}") from error
    except DAMAGES as error:
        raise ConfigurationError(f"--replay {path}: not a recording that can be read ({error})") from error


def parse_recording(content: bytes) -> Recording:
    """The recording in a zip file's bytes; raises what `read_recording` explains."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    _check_sizes(archive)
    header = json.loads(archive.read(HEADER))
    if header["version"] not in READ_VERSIONS:
        known = " and ".join(map(str, READ_VERSIONS))
        advice = "replay it with the version of reconciler that recorded it, or a newer one"
        raise ValueError(f"its format is {header['version']}, known are {known}: {advice}")
    manifests = tuple(
        ManifestFile(path=name.removeprefix(MANIFESTS), body=archive.read(name))
        for name in archive.namelist()
        if name.startswith(MANIFESTS)
    )
    proposals = json.loads(archive.read(PROPOSALS))
    return Recording(
        now_s=float(header["now_s"]),
        repository=str(header["repository"]),
        branch=str(header["branch"]),
        commit=str(header["commit"]),
        settings=codec.load_settings_json(header["settings"]),
        manifests=manifests,
        withheld=tuple(codec.load(WithheldFile, withheld) for withheld in header["withheld"]),
        unread=tuple(codec.load(Finding, finding) for finding in header["unread"]),
        answers=tuple(_read_answer(entry, archive) for entry in header["answers"]),
        proposals=tuple(codec.load(Proposal, proposal) for proposal in proposals),
        paths=tuple(map(str, header["paths"])),
        obstructed=tuple(map(str, header.get(OBSTRUCTED, ()))),
        committed_s=float(header[COMMITTED]) if COMMITTED in header else None,
        written=tuple(codec.load(WrittenCounts, each) for each in header.get(WRITTEN, ())),
        paid=tuple(codec.load(PaidPrices, each) for each in header.get(PAID, ())),
        moved=tuple(codec.load(ResourceKey, each) for each in header[MOVED]) if MOVED in header else None,
    )


def _header(recording: Recording) -> dict[str, object]:
    # what older recordings do not say is left out again, so that they keep their fingerprint
    committed = {} if recording.committed_s is None else {COMMITTED: recording.committed_s}
    written = {WRITTEN: [codec.dump(each) for each in recording.written]} if recording.written else {}
    paid = {PAID: [codec.dump(each) for each in recording.paid]} if recording.paid else {}
    moved = {} if recording.moved is None else {MOVED: [codec.dump(each) for each in recording.moved]}
    obstructed = {OBSTRUCTED: list(recording.obstructed)} if recording.obstructed else {}
    return {
        **committed,
        **obstructed,
        **written,
        **paid,
        **moved,
        "version": RECORDING_VERSION,
        "now_s": recording.now_s,
        "repository": recording.repository,
        "branch": recording.branch,
        "commit": recording.commit,
        "settings": codec.dump_settings(recording.settings),
        "withheld": [codec.dump(withheld) for withheld in recording.withheld],
        "unread": [codec.dump(finding) for finding in recording.unread],
        "paths": list(recording.paths),
        "answers": [_index_entry(number, answer) for number, answer in enumerate(recording.answers)],
    }


def _proposal(proposal: Proposal) -> object:
    # likewise: what was recorded before pull requests kept their promises, and before anybody counted them
    dumped = cast(dict[str, object], codec.dump(proposal))
    return {key: value for key, value in dumped.items() if key not in LATER or value}


def _index_entry(number: int, answer: Answer) -> dict[str, object]:
    query = answer.query
    return {
        "cluster": query.cluster,
        "quantity": query.quantity,
        "query": query.text,
        "start": query.start_s,
        "end": query.end_s,
        "step": query.step_s,
        "status": answer.status.value,
        "reason": answer.reason,
        "file": f"{ANSWERS}{number}",
    }


def _read_answer(entry: Mapping[str, object], archive: zipfile.ZipFile) -> Answer:
    step = entry["step"]
    name = str(entry["file"])
    body: Body = ZippedBody(archive=archive, name=archive.getinfo(name).filename) if name else HeldBody()
    return Answer(
        query=Query(
            cluster=str(entry["cluster"]),
            quantity=str(entry["quantity"]),
            text=str(entry["query"]),
            start_s=float(str(entry["start"])),
            end_s=float(str(entry["end"])),
            step_s=None if step is None else float(str(step)),
        ),
        status=AnswerStatus(str(entry["status"])),
        body=body,
        reason=str(entry["reason"]),
    )


def _dump(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False).encode()


def _dump_each(entries: Iterable[object]) -> bytes:
    """The same of a list, an entry at a time: a month of merged pull requests takes 40 KB each as objects."""
    dumped = [b" " + _dump(each).replace(b"\n", b"\n ") for each in entries]
    return b"[\n" + b",\n".join(dumped) + b"\n]" if dumped else b"[]"


def _check_sizes(archive: zipfile.ZipFile) -> None:
    for entry in archive.infolist():
        if entry.file_size > MAX_ENTRY_BYTES:
            raise ValueError(f"{entry.filename} is larger than {MAX_ENTRY_BYTES // 2**20} MiB")
