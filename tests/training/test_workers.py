"""Several processes train as one, and what one of them knows reaches the others."""

import json
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training.strategy import make_strategy
from keras_transformer.training.workers import Workers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

_AGREE = """
import json, pathlib, sys
import numpy as np
import keras_transformer.training.workers as module
from keras_transformer.training.strategy import make_strategy
strategy = make_strategy("multiworker")
import tensorflow as tf
index, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
module._CHUNK = 1000
workers = module.Workers(strategy)
with strategy.scope():
    variables = [
        tf.Variable(np.arange(5.0) / 3 + index, dtype="float32"),
        tf.Variable([7 + index, 2], dtype="int32"),
        tf.Variable(2**40 + index, dtype="int64"),
    ]
    for variable in variables:  # (a mirrored variable begins with the chief's value)
        variable.assign(variable + tf.cast(index, variable.dtype))
copy = workers.folder_from_chief(folder / "there" if index == 0 else folder / "nowhere")
workers.variables_from_chief(variables)
print(json.dumps({
    "count": workers.count,
    "chief": workers.is_chief,
    "any": [workers.any(False), workers.any(index == 1), workers.any(True)],
    "files": {p.name: p.read_bytes().decode("latin-1") for p in copy.iterdir()},
    "variables": [np.asarray(variable.read_value()).tolist() for variable in variables],
}))
"""


def test_one_process_alone_is_the_chief_and_asks_no_one():
    workers = Workers(make_strategy("single"))
    assert workers.count == 1 and workers.is_chief
    assert workers.any(True) and not workers.any(False)
    assert workers.from_chief(b"x") == b"x"
    assert workers.folder_from_chief(pathlib.Path("x")) == pathlib.Path("x")


@pytest.mark.slow
def test_what_the_chief_has_reaches_the_other_bit_for_bit(tmp_path, start_workers):
    (tmp_path / "there").mkdir()
    data = {"a.model": bytes(np.random.default_rng(0).integers(0, 256, 2501, np.uint8)), "b": b""}
    for name, content in data.items():
        (tmp_path / "there" / name).write_bytes(content)
    command = [sys.executable, "-c", _AGREE]
    found = []
    for process in start_workers(*([*command, i, str(tmp_path)] for i in "01")):
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error[-3000:]
        found.append(json.loads(out.splitlines()[-1]))
    assert [one["chief"] for one in found] == [True, False]
    for one in found:
        assert one["count"] == 2 and one["any"] == [False, True, True]
        assert one["files"] == {name: content.decode("latin-1") for name, content in data.items()}
        expected = [np.float32(np.arange(5.0) / 3).tolist(), [7, 2], 2**40]
        assert one["variables"] == expected
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
def test_two_processes_train_the_demo_stop_and_go_on_and_the_first_writes(tmp_path, start_workers):
    command = [sys.executable, str(ROOT / "trainers" / "train_wmt.py")]
    settings = ["model.num_layers=1", "model.d_model=32", "model.d_ff=64", "model.num_heads=2"]
    settings += ["training.evaluate_steps=3", "training.evaluate_sentences=5"]
    settings += ["training.checkpoint_steps=2", "training.batch_tokens=512"]
    command += [part for setting in settings for part in ("--set", setting)]
    for steps in (4, 7):  # the second goes on where the first ended
        commands = [
            [*command, "--set", f"training.steps={steps}"]
            + ["--run-dir", str(tmp_path / folder), "--export-to", str(tmp_path / f"{folder}-out")]
            for folder in ("first", "second")
        ]
        processes = start_workers(*commands, flags=steps == 7)[-2:]
        outputs = [process.communicate(timeout=900) for process in processes]
        for process, (_, error) in zip(processes, outputs, strict=True):
            assert process.returncode == 0, error[-3000:]
    assert "Going on from update 4" in outputs[0][1]
    assert "Test BLEU" in outputs[0][0] and outputs[1][0] == ""
    assert json.loads((tmp_path / "first" / "report.json").read_text())["updates"] == 7
    assert {path.name for path in tmp_path.iterdir()} == {"first", "first-out"}


@pytest.mark.parametrize("text", ["", "{}", '{"cluster": {"worker": []}, "task": 3}', "nonsense"])
def test_an_unfit_description_of_the_cluster_is_an_error_that_shows_a_fit_one(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match='TF_CONFIG should .*"worker", "index": 0'):
        make_strategy("multiworker")


def test_a_missing_tpu_is_an_error_with_the_remedy():
    assert tf.config.list_logical_devices("TPU") == []
    with pytest.raises(ValueError, match="No TPU was found: .*Set TPU_NAME"):
        make_strategy("tpu")


@pytest.mark.slow
def test_processes_with_different_text_all_refuse_it(tmp_path, start_workers):
    command = [sys.executable, str(ROOT / "trainers" / "train_wmt.py"), "--preset", "tiny"]
    command += ["--set", "model.vocab_size=300", "--set", "training.steps=1"]
    commands = []
    for name in "ab":
        lines = [f"{name if i == 9 else i} horses\t{i} Pferde\n" for i in range(60)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
        commands.append([*command, "--train-tsv", str(tmp_path / f"{name}.tsv")])
        commands[-1] += [
            "--run-dir",
            str(tmp_path / "run" / name),
            "--export-to",
            str(tmp_path / "x"),
        ]
    for process in start_workers(*commands)[-2:]:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 2, error[-3000:]
        assert "The processes do not train on the same text" in error
