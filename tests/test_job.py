"""The main job on a small corpus: everything it should leave behind, and going on."""

import fcntl
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import cli
from keras_transformer.data.demo import make_demo_corpus
from keras_transformer.run_directory import RunConfig
from keras_transformer.text.lines import read_lines, write_lines

# (The corpus has a line that is longer.)
pytestmark = pytest.mark.filterwarnings("ignore:.*max_source_length:UserWarning")

ROOT = pathlib.Path(__file__).resolve().parent.parent

SMALL = [
    *("model.vocab_size=400", "model.num_layers=1", "model.d_model=32", "model.d_ff=64"),
    *("model.num_heads=2", "decoding.beam_size=2", "decoding.extra_length=10"),
    *("training.steps=6", "training.checkpoint_steps=2", "training.evaluate_steps=4"),
    *("training.evaluate_sentences=5", "training.batch_tokens=512", "training.num_buckets=3"),
    *("training.keep_checkpoints=5", "training.average_last=3"),
]


def write_corpus(folder, odd=()):
    """Files of a small demo corpus, the odd lines mixed in at the front."""
    corpus = make_demo_corpus(200, 5, 8)
    for split in ("train", "valid", "test"):
        source, target = getattr(corpus, split)
        write_lines(folder / f"{split}.en", [*odd, *source])
        write_lines(folder / f"{split}.de", [*odd, *target])
    return {
        f"{split}_{side}": str(folder / f"{split}.{language}")
        for split in ("train", "valid", "test")
        for side, language in (("source", "en"), ("target", "de"))
    }


ODD = [
    "",
    " ",
    "carriage return\r",
    "line\u2028separator and \u0085 next line",
    "\x01\x02 control \x7f\ttab",
    "emoji 👩‍👩‍👧‍👦 🏳️‍🌈",
    "ひらがな עברית العربية ᚠᚢᚦ",
    "very long " * 400,
    "e\u0301 combining",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on files with odd lines in all of them."""
    folder = tmp_path_factory.mktemp("run")
    data = write_corpus(folder, ODD)
    said = []
    config = RunConfig.from_preset("demo", data, SMALL)
    job = kt.Job(config, folder / "run", folder / "exports", "single", said.append)
    return folder, job.run(), said, config


def test_the_run_directory_describes_itself(run):
    folder, report, said, _ = run
    names = {path.name for path in (folder / "run").iterdir()}
    assert {"config.json", "vocab", "checkpoints", "tensorboard", "metrics.jsonl"} <= names
    assert report == json.loads((folder / "run" / "report.json").read_text())
    assert report["updates"] == 6 and report["averaged_updates"] == [2, 4, 6]
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["model"]["vocab_size"] == 400
    assert kt.RunConfig.load(folder / "run").to_dict() == config
    assert any("1 left out as empty" in line for line in said)
    assert any(re.search(r"[1-9] left out as too long", line) for line in said)


def test_the_score_is_that_of_the_exports_translations(run):
    folder, report, _, config = run
    source, reference = read_lines(folder / "test.en"), read_lines(folder / "test.de")
    translations = kt.load(report["export"])(source)
    assert len(translations) == len(source) == 8 + len(ODD)
    assert translations[0] == "" and not any("\n" in line for line in translations)
    assert report["test"]["bleu"] == kt.corpus_bleu(translations, reference).score
    assert kt.Translator.from_run(folder / "run")(source) == translations


def test_the_average_is_the_mean_of_the_last_checkpoints(run):
    folder = run[0] / "run"
    models = [kt.load_run(folder, step)[0] for step in (2, 4, 6)]
    average = kt.load_run(folder, "average")[0]
    for mean, *parts in zip(average.weights, *(model.weights for model in models), strict=True):
        np.testing.assert_allclose(mean.numpy(), np.mean([p.numpy() for p in parts], 0), atol=1e-6)


@pytest.mark.slow
def test_the_same_job_again_goes_on_or_finds_itself_finished(run):
    folder, report, _, config = run
    said = []
    longer = RunConfig(config.model, config.training.replace(steps=8), config.decoding, config.data)
    again = kt.Job(longer, folder / "run", None, "single", said.append).run()
    assert again["updates"] == 8
    assert "Going on from update 6" in " ".join(said)
    finished = kt.Job(longer, folder / "run", None, "single", said.append).run()
    assert finished["test"]["bleu"] == again["test"]["bleu"]


def test_going_on_with_other_text_or_another_vocabulary_is_refused(run, tmp_path):
    folder, _, _, config = run
    other = write_corpus(tmp_path)
    changed = RunConfig(
        config.model, config.training, config.decoding, config.data.replace(**other)
    )
    with pytest.raises(ValueError, match="another training text"):
        kt.Job(changed, folder / "run", None, "single").run()
    changed = RunConfig(
        config.model.replace(vocab_size=399), config.training, config.decoding, config.data
    )
    with pytest.raises(ValueError, match="400.* is not the one asked for .*399"):
        kt.Job(changed, folder / "run", None, "single").run()


@pytest.mark.slow
def test_the_command_reads_stdin_and_writes_stdout_as_a_process_of_its_own(run):
    command = [sys.executable, "-m", "keras_transformer.cli", "translate", "--n-best", "2"]
    result = subprocess.run(
        [*command, "--model", run[1]["export"]], input=b"the man\n\n", capture_output=True
    )
    assert result.returncode == 0, result.stderr.decode()
    rows = [line.split("\t") for line in result.stdout.decode().split("\n")[:-1]]
    # Of an empty line there is but one translation, the empty one.
    assert [row[0] for row in rows] == ["1", "1", "2"]
    assert float(rows[0][1]) >= float(rows[1][1]) and rows[2][2] == ""


def test_a_refused_start_leaves_the_run_as_it_was_and_a_second_process_is_kept_out(run):
    folder, _, _, config = run
    before = (folder / "run" / "config.json").read_bytes()
    changed = RunConfig(
        config.model.replace(d_ff=65), config.training, config.decoding, config.data
    )
    with pytest.raises(ValueError, match="another model: d_ff is 64 there and 65 now"):
        kt.Job(changed, folder / "run", None, "single").run()
    assert (folder / "run" / "config.json").read_bytes() == before
    with (folder / "run" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="Another process is at work in"):
            kt.Job(config, folder / "run", None, "single").run()


def test_a_vocabulary_that_does_not_fit_the_checkpoints_is_refused(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run[0] / "run", copy)
    lines = ["other words make other pieces"] * 20
    shutil.rmtree(copy / "vocab")
    kt.Vocabularies.learn(lines, lines, vocab_size=280).save(copy / "vocab")
    with pytest.raises(ValueError, match="is not the one that .* was trained with"):
        kt.load_run(copy)


def test_an_average_is_a_folder_of_its_own_that_translates_as_the_run_does(run, tmp_path, capsys):
    folder, average = run[0] / "run", tmp_path / "average"
    command = ["average", "--run-dir", str(folder), "--to", str(average)]
    assert cli.main([*command, "--last", "2"]) == 0
    assert "updates 4, 6" in capsys.readouterr().out
    found, expected = kt.load_run(average)[0], [kt.load_run(folder, step)[0] for step in (4, 6)]
    for mean, *parts in zip(found.weights, *(model.weights for model in expected), strict=True):
        np.testing.assert_allclose(mean.numpy(), np.mean([p.numpy() for p in parts], 0), atol=1e-6)
    assert cli.main([*command, "--last", "2"]) == 2
    assert "exists already" in capsys.readouterr().err
    command[-1] = str(tmp_path / "other")
    assert cli.main([*command, "--last", "7"]) == 2
    assert "as are to be averaged, 7" in capsys.readouterr().err
    assert not list(tmp_path.glob(".writing*")) and not (tmp_path / "other").exists()


def test_checkpoints_of_another_model_are_not_averaged(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run[0] / "run", copy)
    path = copy / "checkpoints" / "step-00000004" / "state.json"
    path.write_text(path.read_text().replace('"d_ff": 64', '"d_ff": 65'))
    with pytest.raises(ValueError, match="step-00000004 holds another model"):
        kt.load_run(copy, "average")


def test_dumped_settings_are_read_again_and_a_dry_run_says_what_they_cost(tmp_path, capsys):
    data = [f"--{name.replace('_', '-')}={path}" for name, path in write_corpus(tmp_path).items()]
    settings = [argument for setting in SMALL for argument in ("--set", setting)]
    file, run_dir = tmp_path / "small.json", tmp_path / "run"
    main = train_wmt().main
    assert main([*data, *settings, "--preset", "demo", "--dump-config", str(file)]) == 0
    assert RunConfig.load(file).model.d_model == 32
    again = ["--config", str(file), "--run-dir", str(run_dir), "--batch-tokens", "300"]
    capsys.readouterr()
    assert main([*again, "--dry-run"]) == 0
    said = capsys.readouterr().out
    figures = json.loads(said[said.index("{") :])
    assert figures["config"]["training"]["batch_tokens"] == 300
    assert figures["config"]["model"]["num_layers"] == 1
    model = kt.build_transformer(kt.TransformerConfig.from_dict(figures["config"]["model"]))
    assert figures["parameters"] == model.count_params()
    assert figures["batches_per_epoch"] * figures["epochs"] == pytest.approx(6)
    assert figures["training_flops"] > 0 and 0 < figures["expected_mib_per_device"] < 100
    assert not run_dir.exists()


def test_what_cleaning_leaves_out_is_said_and_reported(tmp_path):
    files = write_corpus(tmp_path, ["Copyright", "Copyright", "a \x07 bell"])
    settings = [*SMALL, "data.drop_identical=true", "data.drop_control=true", "training.steps=1"]
    settings += ["training.average_last=1", "training.keep_checkpoints=1"]
    said = []
    config = RunConfig.from_preset("demo", files, settings)
    report = kt.Job(config, tmp_path / "run", None, "single", said.append).run()
    assert report["left_out"] == {"drop_control": 1, "drop_identical": 2}
    assert "drop_identical: 2 training pairs left out." in said


def test_a_vocabulary_learnt_beforehand_serves_a_run(tmp_path, capsys):
    files = write_corpus(tmp_path)
    texts = ["--source", files["train_source"], "--target", files["train_target"]]
    command = ["vocab", *map(str, texts), "--size", "400", "--sample", "150", "--to"]
    folders = [str(tmp_path / name) for name in ("a", "b", "c")]
    assert cli.main([*command, folders[0]]) == cli.main([*command, folders[1]]) == 0
    assert cli.main([*command, folders[2], "--seed", "1"]) == 0
    a, b, c = (kt.Vocabularies.load(folder).fingerprint for folder in folders)
    assert a == b != c
    assert cli.main([*command, folders[0]]) == 2
    printed = capsys.readouterr()
    assert "exists already" in printed.err
    assert f"{folders[0]} (train with --set model.vocab_size=400)\n" in printed.out
    adopt = ["vocab", "--from", f"{folders[0]}/shared.model", f"{folders[2]}/shared.model"]
    assert cli.main([*adopt, "--to", str(tmp_path / "both")]) == 0
    assert kt.Vocabularies.load(tmp_path / "both").target.fingerprint == (
        kt.Vocabularies.load(folders[2]).target.fingerprint
    )
    assert "--set model.target_vocab_size=400" in capsys.readouterr().out
    assert cli.main([*adopt, "--sample", "4", "--to", str(tmp_path / "d")]) == 2
    assert "nothing is learnt then" in capsys.readouterr().err
    data = {**files, "vocab": folders[0]}
    settings = [s for s in SMALL if "vocab_size" not in s]
    config = RunConfig.from_preset("demo", data, [*settings, "model.vocab_size=400"])
    job = kt.Job(config, tmp_path / "run")
    assert job.dry_run()["config"]["model"]["vocab_size"] == 400
    other = RunConfig.from_preset("demo", data, [*settings, "model.vocab_size=401"])
    with pytest.raises(ValueError, match="vocabulary in .*/a .* is not the one asked for"):
        kt.Job(other, tmp_path / "run").dry_run()


def test_a_text_that_streams_trains_as_the_same_text_prepared_before(tmp_path, capsys):
    data = write_corpus(tmp_path)
    few = [*SMALL, "training.steps=2", "data.drop_duplicates=true", "data.vocab_sample=150"]
    said = []
    config = RunConfig.from_preset("demo", data | {"stream": True}, few)
    streamed = kt.Job(config, tmp_path / "streamed", None, "single", said.append).run()
    assert streamed["left_out"] == {"drop_duplicates": 0} and streamed["test"]["sentences"] == 8
    assert "Learning a vocabulary of 400 from at most 150 lines a side ..." in said
    assert any(line.startswith("Tokenising") for line in said)
    prepare = ["prepare", "--source", data["train_source"], "--target", data["train_target"]]
    prepare += ["--vocab", str(tmp_path / "streamed" / "vocab"), "--to", str(tmp_path / "corpus")]
    prepare += ["--max-length", str(config.training.max_length)]
    assert cli.main([*prepare, "--set", "drop_duplicates=true"]) == 0
    prepared = RunConfig.from_preset("demo", {"prepared": str(tmp_path / "corpus")}, few[:-2])
    assert "test" not in kt.Job(prepared, tmp_path / "prepared", None, "single").run()
    both = [kt.load_run(tmp_path / name, "last")[0] for name in ("streamed", "prepared")]
    for one, other in zip(*(model.weights for model in both), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    main, sets = train_wmt().main, [flag for setting in few[:-2] for flag in ("--set", setting)]
    command = ["--prepared", str(tmp_path / "corpus"), "--preset", "demo", *sets]
    command += ["--run-dir", str(tmp_path / "prepared"), "--export-to", str(tmp_path / "exports")]
    capsys.readouterr()
    assert main([*command, "--set", "training.max_length=20"]) == 2
    assert "Raise that, or prepare" in capsys.readouterr().err
    assert main([*command, "--set", "data.drop_control=true"]) == 2
    assert "give no other files to train on" in capsys.readouterr().err


def test_the_command_gives_n_lines_for_n_lines(run, tmp_path):
    export = run[1]["export"]
    lines = [*ODD, "the old man reads", ""]
    (tmp_path / "in.txt").write_bytes("\n".join(lines).encode() + b"\n")
    files = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")]
    assert cli.main(["translate", "--model", export, *files]) == 0
    out = (tmp_path / "out.txt").read_bytes().decode().split("\n")
    assert len(out) == len(lines) + 1 and out[-1] == ""
    assert out[0] == "" and out[-2] == ""
    expected = kt.load(export)([line.removesuffix("\r") for line in lines])
    assert out[:-1] == expected


def test_a_long_line_is_cut_with_a_warning_on_stderr(run, tmp_path, capsys):
    write_lines(tmp_path / "in.txt", ["short", "word " * 600])
    command = ["translate", "--model", run[1]["export"], "--input", str(tmp_path / "in.txt")]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert cli.main(command) == 0
    out, error = capsys.readouterr()
    assert out.count("\n") == 2
    assert error.startswith("warning: 1 of 2 lines have more than max_source_length=512 tokens")


@pytest.mark.slow
def test_an_ensemble_of_checkpoints_translates_scores_and_exports(run, tmp_path, capsys):
    folder, files = str(run[0] / "run"), ["--checkpoint", "2", "6", "--beam-size", "1"]
    write_lines(tmp_path / "in.txt", ["the old man reads", "", "dogs run"])
    source = str(tmp_path / "in.txt")
    assert cli.main(["translate", "--model", folder, *files, "--input", source]) == 0
    found = capsys.readouterr().out
    translator = kt.Translator.from_run(folder, [2, 6])
    assert found.split("\n")[:-1] == translator(read_lines(source), beam_size=1)
    assert cli.main(["export", "--run-dir", folder, *files, "--to", str(tmp_path / "both")]) == 0
    export = capsys.readouterr().out.strip()
    assert kt.load(export)(read_lines(source)) == found.split("\n")[:-1]
    target = str(tmp_path / "out.txt")
    write_lines(target, ["der alte Mann liest", "", "Hunde laufen"])
    for model in (["--model", export], ["--model", folder, "--checkpoint", "2", "6"]):
        assert cli.main(["score", *model, "--source", source, "--target", target]) == 0
        scores = [float(line) for line in capsys.readouterr().out.split("\n")[:-1]]
        expected = translator.score(read_lines(source), read_lines(target))
        np.testing.assert_allclose(scores, expected, atol=1e-3)


def test_inspect_says_what_an_export_holds(run, capsys):
    assert cli.main(["inspect", "--model", run[1]["export"]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decoding"] == run[3].decoding.to_dict()
    assert found["signatures"]["nbest"] == {
        "inputs": {"source": "string [any]"},
        "outputs": {"score": "float32 [any, 2]", "translation": "string [any, 2]"},
    }
    assert set(found["signatures"]) == {"serving_default", "nbest", "score_pairs", "ids"}


def test_the_search_takes_settings_and_prefixes_from_the_command_line(run, tmp_path, capsys):
    folder = str(run[0] / "run")
    write_lines(tmp_path / "in.txt", ["the old man reads", "dogs run"])
    write_lines(tmp_path / "prefix.txt", ["Der Mann", ""])
    files = ["--input", str(tmp_path / "in.txt"), "--prefix", str(tmp_path / "prefix.txt")]
    options = ["--set", "temperature=0.9", "--set", "seed=3", "--n-best", "3"]
    assert cli.main(["translate", "--model", folder, *files, *options]) == 0
    rows = [line.split("\t", 2) for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    assert all(row[2].startswith("Der Mann") for row in rows[:3])
    translator = kt.Translator.from_run(folder)
    expected = translator(["dogs run"], n_best=3, temperature=0.9, seed=3)
    assert [row[2] for row in rows[3:]] == expected[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "huge"), "no preset 'huge'. There are: base, big"),
        (("--set", "model.layers=3"), "TransformerConfig has no field 'layers'"),
        (("--set", "model.num_layers=many"), "TransformerConfig.num_layers should be of type int"),
        (("--set", "steps=3"), "PART.FIELD=VALUE"),
        (("--set", "training.batch_tokens=10"), "batch_tokens should be at least max_length"),
        (("--train-source", "no.en", "--train-target", "no.de"), "no text file 'no.en'"),
        (("--valid-source", "a", "--valid-target", "b"), "test text without training text"),
        (("--train-source", "only.en"), "train_source is given without train_target"),
        (("--set", "model.dropout=" + "[" * 100_000), "TransformerConfig.dropout should be of"),
        (("--set", "training.clip_norm=1" + 400 * "0"), "clip_norm should be a finite number"),
        (("--run-dir", ""), "--run-dir should name a folder"),
        (("--strategy", "tpus"), "no strategy 'tpus'. There are: auto"),
        (("--workers", "a:1,b:2"), "--workers and --worker-index go together"),
        (("--workers", "a:1,b:2", "--worker-index", "2"), "index should be from 0 to 1"),
        (("--workers", "a:1,a:1", "--worker-index", "0"), "should be distinct HOST:PORT"),
        (("--workers", "a,b", "--worker-index", "0"), "should be distinct HOST:PORT"),
        (
            ("--workers", "a:1", "--worker-index", "0", "--strategy", "single"),
            "--workers goes with --strategy multiworker",
        ),
        (("--run-dir", "/proc/nowhere"), "/proc/nowhere cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_status_2(
    tmp_path, arguments, message, capsys
):
    folders = ["--run-dir", str(tmp_path / "run"), "--export-to", str(tmp_path / "exports")]
    assert train_wmt().main([*folders, *arguments]) == 2
    out, error = capsys.readouterr()
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error
    assert out == "" and not any(tmp_path.rglob("*.json"))


def train_wmt():
    """trainers/train_wmt.py as a module."""
    path = ROOT / "trainers" / "train_wmt.py"
    spec = importlib.util.spec_from_file_location("train_wmt", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_unfit_text_is_named_with_exit_status_2_and_leaves_nothing(tmp_path, capsys):
    (tmp_path / "latin.en").write_bytes(b"ok\ncaf\xe9\n")
    (tmp_path / "two.en").write_bytes(b"one\ntwo\n")
    (tmp_path / "three.de").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "empty.en").write_bytes(b"")
    for source, target, message in (
        ("latin.en", "two.en", "line 2 has byte 0xe9"),
        ("two.en", "three.de", "2 lines and the target 3"),
        ("empty.en", "empty.en", "no sentence pairs"),
    ):
        arguments = ["--train-source", tmp_path / source, "--train-target", tmp_path / target]
        arguments += ["--run-dir", tmp_path / "run", "--preset", "tiny"]
        assert train_wmt().main([str(argument) for argument in arguments]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "run").exists()


def test_a_refused_text_leaves_no_vocabulary_that_a_mended_one_would_be_trained_with(
    tmp_path, capsys
):
    write_lines(tmp_path / "long", ["an old man buys a red apple " * 20] * 60)
    corpus = write_corpus(tmp_path)
    settings = [argument for setting in SMALL for argument in ("--set", setting)]
    folders = ["--run-dir", str(tmp_path / "run"), "--export-to", str(tmp_path / "exports")]
    write_lines(tmp_path / "b", read_lines(corpus["train_target"])[:60])
    command = ["--train-source", str(tmp_path / "long"), "--train-target", str(tmp_path / "b")]
    assert train_wmt().main([*command, *settings, *folders, "--preset", "demo"]) == 2
    assert "no pair is left of 60" in capsys.readouterr().err
    command = [f"--{name.replace('_', '-')}={path}" for name, path in corpus.items()]
    settings += ["--set", "model.activation=softly"]
    assert train_wmt().main([*command, *settings, *folders, "--preset", "demo"]) == 2
    assert "softly" in capsys.readouterr().err
    assert not (tmp_path / "run").exists() and not (tmp_path / "exports").exists()


def test_translating_mistakes_are_one_sentence_too(run, tmp_path, capsys):
    export, path, short = run[1]["export"], tmp_path / "in.txt", tmp_path / "short"
    write_lines(short, ["der"])
    for arguments, text, message in (
        (("--model", tmp_path), b"", "is not a SavedModel"),
        (("--model", tmp_path / "nope"), b"", "Give an export, such as saved_models/demo/1, or a"),
        (("--model", export, "--beam-size", "7"), b"a\n", "Received: beam_size=7 (here 2)"),
        (("--model", export, "--set", "top_k=3"), b"a\n", "Set temperature above 0"),
        (("--model", export, "--set", "top=3"), b"a\n", "has no field 'top'"),
        (("--model", export, "--set", "top"), b"a\n", "FIELD=VALUE. Received: 'top'"),
        (("--model", export, export), b"a\n", "An ensemble is made of run directories"),
        (("--model", export, "--prefix", path), b"a\n", "An export takes no prefixes"),
        (("--model", export, "--n-best", "9"), b"", "at most beam_size=2"),
        (("--model", export, "--output", tmp_path / "no" / "x"), b"a\n", "a folder that exists"),
        (("--model", run[0] / "run", "--prefix", short), b"a\nb\n", "should have as many lines"),
        (("--model", export, "--n-best", "9"), b"a\n", "at most beam_size=2"),
        (("--model", export), b"caf\xe9\n", "not UTF-8: line 1"),
        (("--model", run[0] / "run", "--checkpoint", "3"), b"a\n", "no checkpoint '3'"),
        (("--model", export, "--checkpoint", "3"), b"a\n", "chooses among those of a run"),
        (("--model", export, "--n-best", "0"), b"a\n", "`n_best` should be at least 1"),
    ):
        path.write_bytes(text)
        command_line = ["translate", "--input", path, *arguments]
        assert cli.main([str(argument) for argument in command_line]) == 2
        out, error = capsys.readouterr()
        assert message in error and error.count("\n") == 1 and out == ""
