"""The README's first command, as a stranger runs it."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_demo_learns_to_translate_unseen_sentences_and_exports(tmp_path):
    result = subprocess.run(
        [sys.executable, ROOT / "trainers" / "train_wmt.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads((tmp_path / "runs" / "demo" / "report.json").read_text())
    assert report["test"]["bleu"] >= 90 and report["test"]["sentences"] == 1000
    assert "synthetic" in report["test"]["text"]
    assert result.stdout.count("translation:") == 10
    assert (tmp_path / "saved_models" / "demo" / "1" / "saved_model.pb").exists()
    assert "keras-transformer translate --model saved_models/demo/1" in result.stdout
