"""What is prepared on disk is what is tokenised in memory, whatever happens meanwhile."""

import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.cli import main
from keras_transformer.config import DataConfig
from keras_transformer.data import prepare as prepare_module
from keras_transformer.data import prepared as prepared_module
from keras_transformer.data import shards
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.corpus import PairStream, stream_parallel_files
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.prepare import prepare
from keras_transformer.data.prepared import PreparedPairs
from keras_transformer.text.lines import read_lines, write_lines
from keras_transformer.text.vocabulary import Vocabularies


@pytest.fixture(scope="module")
def files(real_data):
    folder = real_data / "multi30k"
    return [[folder / "val.en.gz"], [folder / "val.de.gz"]]


@pytest.fixture(scope="module")
def vocabularies(files):
    text = stream_parallel_files(*files).collect()
    return Vocabularies.learn(text.source, text.target, vocab_size=600)


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        for module in (prepare_module, shards):
            patch.setattr(module, "BLOCK_PAIRS", 100)
        yield


@pytest.fixture(scope="module")
def prepared(small_blocks, files, vocabularies, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    return prepare(stream_parallel_files(*files), vocabularies, folder, max_length=40, shards=5)


def pairs_of(encoded):
    return collections.Counter(
        (tuple(encoded.source[i].tolist()), tuple(encoded.target[i].tolist()))
        for i in range(len(encoded))
    )


def shards_of(folder):
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).glob("train-*"))}


def test_the_pairs_are_those_that_are_tokenised_in_memory(files, vocabularies, prepared):
    expected = encode_pairs(stream_parallel_files(*files).collect(), vocabularies, 40)
    assert prepared.dropped == expected.dropped and prepared.dropped["too long"] > 0
    assert len(prepared) == len(expected) and prepared.tokens == expected.tokens
    assert pairs_of(prepared.load(0, seed=1)) == pairs_of(expected)
    for found, wanted in zip(prepared.lengths, expected.lengths, strict=True):
        assert found.tolist() == wanted.tolist()
    assert prepared.vocabularies.fingerprint == vocabularies.fingerprint


def test_each_shard_is_a_sample_of_examples_that_any_reader_can_read(prepared):
    index = json.loads((prepared.folder / "prepared.json").read_text())
    for shard in index["shards"]:
        records = list(tf.data.TFRecordDataset(str(prepared.folder / shard["file"])))
        assert len(records) == shard["pairs"] > len(prepared) / 5 / 1.5
        example = tf.train.Example.FromString(records[0].numpy())
        assert set(example.features.feature) == {"source", "target"}
        ids = [list(example.features.feature["source"].int64_list.value)]
        assert len(prepared.vocabularies.source.detokenize(ids).numpy()[0]) > 5


def test_stopped_at_any_block_it_goes_on_and_the_bytes_are_the_same(
    files, vocabularies, prepared, tmp_path
):
    class Stop(Exception):
        pass

    def stop_at(limit):
        def on_pairs(count):
            if count > limit:
                raise Stop

        return on_pairs

    text, arguments = stream_parallel_files(*files), {"max_length": 40, "shards": 5}
    for limit in (0, 350, 350, 720):
        with pytest.raises(Stop):
            prepare(text, vocabularies, tmp_path / "x", **arguments, on_pairs=stop_at(limit))
        with pytest.raises(ValueError, match="not a finished one"):
            PreparedPairs(tmp_path / "x")
        with (tmp_path / "x" / "train-00003-of-00005.tfrecord").open("ab") as shard:
            shard.write(b"a block that was not noted")
    done = prepare(text, vocabularies, tmp_path / "x", **arguments)
    assert shards_of(tmp_path / "x") == shards_of(prepared.folder)
    assert done.fingerprint == prepared.fingerprint
    assert {path.name for path in (tmp_path / "x").iterdir()} == {
        *shards_of(tmp_path / "x"), "prepared.json", "vocab", ".lock"
    }  # fmt: skip
    # Asked for again it is there already.
    again = prepare(text, vocabularies, tmp_path / "x", **arguments, on_pairs=stop_at(0))
    assert again.fingerprint == prepared.fingerprint


def test_what_is_left_out_is_counted_and_the_same_however_it_is_read(vocabularies, tmp_path):
    lines = [f"A man rides {i % 150} horses." for i in range(500)] + ["", "same"]
    text = PairStream("numbers", lambda: zip(lines, [*lines[:-2], "x", "same"], strict=True))
    cleaning = DataConfig(drop_duplicates=True, drop_identical=False, max_length_ratio=5)
    pairs = prepare(text, vocabularies, tmp_path / "x", cleaning, shards=3)
    assert pairs.left_out == {"max_length_ratio": 0, "drop_duplicates": 350}
    assert pairs.dropped == {"empty": 1} and len(pairs) == 151


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 39}, "another max_length: 40 there and 39 now"),
        ({"shards": 6}, "another shards"),
        ({"seed": 2}, "another seed"),
        ({"cleaning": DataConfig(drop_control=True)}, "another cleaning"),
    ],
)
def test_a_folder_of_other_settings_is_refused(files, vocabularies, prepared, changes, message):
    settings = {"max_length": 40, "shards": 5} | changes
    with pytest.raises(ValueError, match=message):
        prepare(stream_parallel_files(*files), vocabularies, prepared.folder, **settings)
    (prepared.folder.parent / "other").mkdir(exist_ok=True)
    (prepared.folder.parent / "other" / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="holds something else"):
        prepare(stream_parallel_files(*files), vocabularies, prepared.folder.parent / "other")


@pytest.mark.parametrize("other", ["changed", "shorter"])
def test_a_text_that_changed_meanwhile_is_refused(vocabularies, tmp_path, other):
    lines = [f"A man rides {i} horses." for i in range(500)]

    def stop(count):
        if count > 300:
            raise KeyboardInterrupt

    def text(lines):
        return PairStream("numbers", lambda: zip(lines, lines, strict=True))

    with pytest.raises(KeyboardInterrupt):
        prepare(text(lines), vocabularies, tmp_path / "x", on_pairs=stop)
    changed = ["A dog.", *lines[1:]] if other == "changed" else lines[:150]
    with pytest.raises(ValueError, match="not the text that was begun with"):
        prepare(text(changed), vocabularies, tmp_path / "x")
    assert len(prepare(text(lines), vocabularies, tmp_path / "x")) == 500


def test_a_text_with_no_fitting_pair_leaves_nothing(vocabularies, tmp_path):
    text = PairStream("blanks", lambda: iter([("", "x")] * 3))
    with pytest.raises(ValueError, match="blanks: no pair is left of 3: {'empty': 3"):
        prepare(text, vocabularies, tmp_path / "x")
    with pytest.raises(ValueError, match="nothing: there are no sentence pairs"):
        prepare(PairStream("nothing", lambda: iter([])), vocabularies, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_named(prepared, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(prepared.folder, copy)
    shard = copy / "train-00002-of-00005.tfrecord"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=r"train-00002-of-00005.*expected \d+ bytes, found \d+"):
        PreparedPairs(copy)
    shard.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    with pytest.raises(ValueError, match="train-00002-of-00005.*expected SHA-256"):
        PreparedPairs(copy).load(0, seed=1)
    shard.unlink()
    with pytest.raises(ValueError, match="found None"):
        PreparedPairs(copy)
    (copy / "prepared.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be used"):
        PreparedPairs(copy)


@pytest.mark.parametrize("name", ["prepared.json", "progress.json"])
def test_a_damaged_index_is_named(prepared, vocabularies, files, tmp_path, name):
    copy = tmp_path / "copy"
    for content in ("", "{}", "[]", "null", '{"version": 1}', '{"settings": {}}'):
        shutil.copytree(prepared.folder, copy)
        (copy / "prepared.json").unlink()
        (copy / name).write_text(content)
        with pytest.raises(ValueError, match=f"{name}.*(cannot be used|is damaged).*Remove"):
            prepare(stream_parallel_files(*files), vocabularies, copy, max_length=40, shards=5)
        shutil.rmtree(copy)


def test_after_a_mistake_the_right_call_begins_anew(files, vocabularies, tmp_path):
    for wrong, cleaning, message in (
        (stream_parallel_files(["nope"], files[1]), None, "no text file 'nope'"),
        (stream_parallel_files(*files), DataConfig(source_script="Foo"), "script of Unicode"),
    ):
        with pytest.raises(ValueError, match=message):
            prepare(wrong, vocabularies, tmp_path / "x", cleaning)
        assert list(tmp_path.iterdir()) == []
        assert len(prepare(stream_parallel_files(*files), vocabularies, tmp_path / "x")) > 1000
        shutil.rmtree(tmp_path / "x")


def test_another_text_of_the_same_size_is_told_and_another_date_is_not(vocabularies, tmp_path):
    sides = [tmp_path / "a", tmp_path / "b"]
    for side in sides:
        write_lines(side, ["A man rides a horse."] * 250)
    arguments = (vocabularies, tmp_path / "x")
    made = prepare(stream_parallel_files(*([side] for side in sides)), *arguments)
    os.utime(sides[0], (1, 1))
    again = prepare(stream_parallel_files(*([side] for side in sides)), *arguments)
    assert again.fingerprint == made.fingerprint
    write_lines(sides[0], [*["A man rides a horse."] * 249, "A cat rides a horse."])
    with pytest.raises(ValueError, match="holds another text than .*a and .*b is now"):
        prepare(stream_parallel_files(*([side] for side in sides)), *arguments)
    sides[0].unlink()
    with pytest.raises(ValueError, match="there is no text file"):
        prepare(stream_parallel_files(*([side] for side in sides)), *arguments)


def test_a_vocabulary_in_the_folder_is_that_of_the_corpus_and_no_other_is_touched(
    files, vocabularies, prepared, tmp_path
):
    other = Vocabularies.learn(["some other text"] * 9, ["in two languages"] * 9, vocab_size=280)
    other.save(tmp_path / "theirs" / "vocab")
    text = stream_parallel_files(*files)
    with pytest.raises(ValueError, match="holds something else"):
        prepare(text, vocabularies, tmp_path / "theirs")
    assert Vocabularies.load(tmp_path / "theirs" / "vocab").fingerprint == other.fingerprint
    shutil.copytree(prepared.folder, tmp_path / "copy")
    other.save(tmp_path / "copy" / "vocab")
    with pytest.raises(ValueError, match="vocab is not as it was written: it is another"):
        _ = PreparedPairs(tmp_path / "copy").vocabularies
    again = prepare(text, vocabularies, tmp_path / "copy", max_length=40, shards=5)
    assert again.vocabularies.fingerprint == vocabularies.fingerprint

    def replace_it(count):
        if count == 300:
            other.save(tmp_path / "x" / "vocab")
            raise KeyboardInterrupt

    arguments = (text, vocabularies, tmp_path / "x")
    with pytest.raises(KeyboardInterrupt):
        prepare(*arguments, max_length=40, shards=5, on_pairs=replace_it)
    prepare(*arguments, max_length=40, shards=5)
    assert shards_of(tmp_path / "x") == shards_of(prepared.folder)


def test_an_epoch_in_parts_has_every_pair_once_and_the_shapes_foretold(prepared, monkeypatch):
    monkeypatch.setattr(prepared_module, "_PART_PAIRS", 300)
    pairs = PreparedPairs(prepared.folder)
    assert pairs.parts == 3
    batches = TokenBatches(pairs, batch_tokens=300, num_buckets=4, seed=1)
    everything, orders = pairs_of(prepared.load(0, seed=1)), []
    for epoch in range(2):
        found, shapes = collections.Counter(), collections.Counter()
        for number in range(3 * epoch, 3 * epoch + 3):
            part = batches.part(number)
            found += pairs_of(part.pairs)
            used = np.concatenate([indices for _, indices in part.plan])
            assert sorted(used) == list(range(len(part.pairs)))
            shapes += collections.Counter(bucket for bucket, _ in part.plan)
            assert batches.epochs(number, len(part)) == pytest.approx((number + 1) / 3)
            for bucket, (source, target_in, target_out) in part:
                assert source.shape == (bucket.rows, bucket.source_length)
                assert target_in.shape == target_out.shape == (bucket.rows, bucket.target_length)
            orders.append(part.pairs.source.flat.tolist())
        assert found == everything
        if epoch == 0:
            assert shapes == batches.shapes
    assert orders[:3] != orders[3:]
    # Any part can be begun with, and is then the same.
    again = TokenBatches(PreparedPairs(prepared.folder), 300, 4, seed=1).part(4)
    assert again.pairs.source.flat.tolist() == orders[4]


def test_the_command_prepares_files_and_says_what_it_left_out(
    files, vocabularies, tmp_path, capsys
):
    vocabularies.save(tmp_path / "vocab")
    command = ["prepare", "--source", str(files[0][0]), "--target", str(files[1][0])]
    command += [
        "--vocab",
        str(tmp_path / "vocab"),
        "--to",
        str(tmp_path / "x"),
        "--shards",
        "3",
        "--processes",
        "1",
    ]
    assert main([*command, "--set", "drop_duplicates=true", "--max-length", "30"]) == 0
    out = capsys.readouterr().out
    assert "drop_duplicates: 0 pairs left out" in out and "too long: " in out
    assert f"{len(PreparedPairs(tmp_path / 'x')):,} pairs" in out
    assert main([*command, "--set", "vocab_size=3"]) == 2
    assert "FIELD one of max_length_ratio, drop_duplicates" in capsys.readouterr().err
    write_lines(tmp_path / "short", ["one line"])
    command[command.index("--target") + 1] = str(tmp_path / "short")
    command[command.index("--to") + 1] = str(tmp_path / "y")
    assert main(command) == 2
    assert "the source has 1014 lines and the target 1" in capsys.readouterr().err


def assert_gone(processes):
    deadline = time.monotonic() + 30
    while any(pathlib.Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.2)


def test_a_vocabulary_is_not_learnt_from_what_can_be_read_once(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    command = ["vocab", "--tsv", str(tmp_path / "pipe"), "--to", str(tmp_path / "v")]
    assert main(command) == 2
    assert "pipe cannot be read more than once" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 4])  # while its processes start, and while they work
def test_ctrl_c_ends_it_with_one_line_and_no_process_left(
    real_data, vocabularies, tmp_path, seconds
):
    vocabularies.save(tmp_path / "vocab")
    command = [sys.executable, "-m", "keras_transformer.cli", "prepare", "--processes", "2"]
    for flag, side in (("--source", "en"), ("--target", "de")):
        command += [flag, *[str(real_data / "tatoeba" / f"en-de.{side}.gz")] * 5]
    process = subprocess.Popen(
        [*command, "--vocab", tmp_path / "vocab", "--to", tmp_path / "x"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, which gets the signal as from a terminal
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children.read_text().split()) < 3 and process.poll() is None:
        time.sleep(0.05)
    time.sleep(seconds)
    started = children.read_text().split()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert "The same command goes on from here." in errors
    assert_gone(started)


@pytest.mark.slow
def test_kill_9_at_any_moment_loses_nothing_and_leaves_no_process(
    real_data, vocabularies, tmp_path
):
    vocabularies.save(tmp_path / "vocab")
    for side in ("en", "de"):
        lines = read_lines(real_data / "tatoeba" / f"en-de.{side}.gz")
        write_lines(tmp_path / side, lines[-100_000:])
    command = [sys.executable, "-m", "keras_transformer.cli", "prepare"]
    command += ["--source", str(tmp_path / "en"), "--target", str(tmp_path / "de")]
    command += ["--vocab", str(tmp_path / "vocab"), "--shards", "7", "--to"]
    whole = subprocess.run([*command, tmp_path / "whole", "--processes", "1"], capture_output=True)
    assert whole.returncode == 0, whole.stderr
    progress, seen = tmp_path / "x" / "progress.json", -1
    for _ in range(2):
        process = subprocess.Popen(
            [*command, tmp_path / "x", "--processes", "2"], stderr=subprocess.DEVNULL
        )
        while process.poll() is None:  # until another block is done
            done = json.loads(progress.read_text())["blocks"] if progress.exists() else 0
            if done > seen:
                seen = done
                break
            time.sleep(0.05)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert_gone(children.split())
    assert 0 < seen < 5 and progress.exists()
    last = subprocess.run([*command, tmp_path / "x", "--processes", "2"], capture_output=True)
    assert last.returncode == 0, last.stderr
    assert shards_of(tmp_path / "x") == shards_of(tmp_path / "whole")
