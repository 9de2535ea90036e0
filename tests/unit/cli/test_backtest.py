"""`reconciler backtest` from a recording and a file of loads."""

import gzip
import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cli.main import invoke
from reconciler.cli.sample import _data
from reconciler.domain.answers import AnswerStatus, HeldBody
from reconciler.domain.identity import ModelKey
from reconciler.pipeline import backtest as backtest_from
from reconciler.pipeline.backtest import _keep_day, _read_day, read_loads
from reconciler.pipeline.recording import read_recording, write_recording
from reconciler.report.backtest import day_json
from tests.unit.report.test_pages import backtest

MODELS = ("prod/chat/mistralai/Mistral-Nemo-Instruct-2407", "prod/code/meta-llama/Llama-3.1-8B-Instruct")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """The demo's."""
    file = tmp_path / "recording.zip"
    file.write_bytes((_data() / "recording.zip").read_bytes())
    return file


@pytest.fixture
def loads(tmp_path: Path) -> Path:
    """Two days of two models of the demo, and a column that is none."""
    file = tmp_path / "loads.csv"
    lines = [f"start_s,{MODELS[0]},elsewhere,{MODELS[1]}"]
    lines += [f"{600 * at},{12 + 6 * (at // 72 % 2)},1,{'' if at == 3 else 9}" for at in range(288)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_it_tells_the_sentence_first_and_goes_on_from_days_that_were_kept(
    recording: Path, loads: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep = tmp_path / "days"
    asked = ["backtest", "--replay", str(recording), "--loads", str(loads), "--days", "2", "--keep", str(keep)]
    assert invoke(asked) == 0
    text = capsys.readouterr().out
    assert text.startswith("On your last 2 days: ")
    assert "inside targets instead of" in text.splitlines()[0]
    assert "HPA on arrival rate" in text
    kept = sorted(keep.glob("day-*.json"))
    assert len(kept) == 2
    kept[0].write_text("{", encoding="utf-8")  # a run that was killed left this
    before = kept[1].stat().st_mtime_ns
    assert invoke([*asked, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sentence"] == text.splitlines()[0]
    assert [day["day"] for day in document["days"]] == ["2026-01-13", "2026-01-14"]
    assert kept[1].stat().st_mtime_ns == before
    assert json.loads(kept[0].read_text(encoding="utf-8"))["day"] == "2026-01-13"
    assert invoke(asked) == 0
    assert capsys.readouterr().out == text


def test_a_kept_day_is_read_as_it_was_and_one_that_someone_changed_is_none(tmp_path: Path) -> None:
    (day,), file = backtest().days, tmp_path / "day.json"
    _keep_day(file, day)
    assert _read_day(file) == day
    changed: tuple[dict[str, object], ...] = (
        {"load": ["a"]},
        {"changes": [[1.0, 2]]},
        {"forecast": []},
        {"model": None},
    )
    for wrong in changed:
        content = json.loads(json.dumps(day_json(day)))
        content["courses"][1] |= wrong
        file.write_text(json.dumps(content), encoding="utf-8")
        assert _read_day(file) is None


def test_a_day_is_kept_while_another_run_writes_the_same(tmp_path: Path) -> None:
    (day,), file = backtest().days, tmp_path / "day.json"
    (tmp_path / "day.part").mkdir()  # where nobody else may be half way
    (tmp_path / "day.1.part").mkdir()
    _keep_day(file, day)
    assert _read_day(file) == day


def test_a_file_of_loads_is_never_in_memory_as_numbers_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tuple(ModelKey(cluster="prod", namespace="chat", model_id=f"m{number}") for number in range(400))
    file, windows = tmp_path / "loads.csv", 300
    lines = [",".join(("start_s", *map(str, models)))]
    lines += [",".join((str(600 * at), *(f"{at}.{number}" for number in range(len(models))))) for at in range(windows)]
    file.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(backtest_from, "MOST_BYTES", 2**20)  # so much is asked for at once, whatever a file has
    tracemalloc.start()
    try:
        loads = read_loads(file, models, 1e9)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert loads.per_s.shape == (400, 300)
    assert loads.per_s[7, 299] == 299.7
    assert peak < 12 * file.stat().st_size


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("start_s,nobody\n0,1\n600,1\n", "no column is named after a model"),
        (f"start_s,{MODELS[0]}\n0,1\n600,x\n", ":3: could not convert"),
        (f"start_s,{MODELS[0]}\n0,1\n600,-1\n", ":3: expected a time and rates of 0 or more"),
        (f"start_s,{MODELS[0]}\n0,1\n600\n", ":3: expected 2 values, found 1"),
        (f"start_s,{MODELS[0]}\n0,1\n600,1\n700,1\n", "windows of one length"),
        (f"start_s,{MODELS[0]}\n0,1\n600,1\n", "of no whole day"),
        ("", "expected a line of names"),
    ],
)
def test_loads_that_cannot_be_read_are_an_error_with_the_place(
    recording: Path, tmp_path: Path, content: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "loads.csv"
    file.write_text(content, encoding="utf-8")
    assert invoke(["backtest", "--replay", str(recording), "--loads", str(file)]) == 5
    assert words in capsys.readouterr().err


def test_a_damaged_archive_of_loads_is_an_error_too(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "loads.csv.gz"
    damaged = bytearray(gzip.compress(b"start_s,x\n0,1\n"))
    damaged[10] = 0xFF
    file.write_bytes(damaged)
    assert invoke(["backtest", "--replay", str(recording), "--loads", str(file)]) == 5
    assert "expected a CSV file of loads" in capsys.readouterr().err


def test_a_recording_of_less_than_a_day_says_what_to_do(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = invoke(["backtest", "--replay", str(recording), "--days", "1"])
    captured = capsys.readouterr()
    assert code == 5 or captured.out.startswith("On your last day")


def test_a_replay_has_nothing_to_record(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["backtest", "--replay", str(recording), "--record", "x.zip"]) == 5
    assert "nothing new to record" in capsys.readouterr().err


def test_days_of_a_reading_that_nobody_records_are_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["backtest", "--prometheus", "http://127.0.0.1:1", "--keep", "days"]) == 5
    assert "add --record FILE: after a stop, --replay FILE goes on" in capsys.readouterr().err


def test_what_is_missing_for_a_replay_is_said(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.zip"
    write_recording(replace(read_recording(recording), manifests=(), answers=()), empty)
    assert invoke(["backtest", "--replay", str(empty)]) == 5
    assert "nothing in the repository is managed: `reconciler init --adopt`" in capsys.readouterr().err


def test_a_prometheus_that_died_is_the_reason_why_nothing_can_be_replayed(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read, died = read_recording(recording), tmp_path / "died.zip"
    past = {each.query.quantity for each in read.answers if each.query.quantity.startswith("demand_")}
    answers = tuple(
        replace(each, status=AnswerStatus.FAILED, reason="no connection", body=HeldBody())
        if each.query.quantity in past
        else each
        for each in read.answers
    )
    write_recording(replace(read, answers=answers), died)
    assert invoke(["backtest", "--replay", str(died)]) == 4
    assert re.search(r"\d+ of \d+ questions to Prometheus failed: no connection", capsys.readouterr().err)


def test_a_directory_that_cannot_be_written_to_is_an_error_before_any_day_is_replayed(
    recording: Path, loads: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtest_from, "replay_days", None)
    (tmp_path / "days").write_text("a file")
    asked = ["backtest", "--replay", str(recording), "--loads", str(loads), "--days", "1"]
    assert invoke([*asked, "--keep", str(tmp_path / "days")]) == 5
    assert f"--keep {tmp_path / 'days'}: " in capsys.readouterr().err
