"""The README's code does what the README says."""

import pathlib
import re
import subprocess
import sys

import pytest

from keras_transformer.console import run_command
from keras_transformer.presets import PRESETS

README = (pathlib.Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_python_blocks_run_one_after_another(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    blocks = [block for block in blocks if "localhost" not in block and "ct2" not in block]
    assert len(blocks) == 2
    for block in blocks:
        result = subprocess.run(
            [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr[-3000:]
    assert (tmp_path / "model.keras").exists()
    assert result.stdout.startswith("['")


def test_it_names_every_preset_and_only_files_that_exist():
    for name in PRESETS:
        assert name in README or name.startswith("table3_")
    root = pathlib.Path(__file__).resolve().parent.parent
    for link in re.findall(r"\]\(((?:keras_transformer|docs|RESULTS)[^)]*)\)", README):
        assert (root / link).exists(), link


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("x"), 2), (FloatingPointError("x"), 1), (KeyboardInterrupt(), 130)],
)
def test_commands_end_with_the_documented_status(error, status, capsys):
    def command(_):
        raise error

    assert run_command(command, None) == status
    assert capsys.readouterr().err.count("\n") == 1
