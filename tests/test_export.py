"""The SavedModel says what Python says, in a fresh process, from another folder."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import END_ID
from keras_transformer.decoding.translator import Translator
from keras_transformer.export import describe, export_saved_model, load, next_version

_FRESH = """
import json, sys
import tensorflow as tf, tensorflow_text
loaded = tf.saved_model.load(sys.argv[1])
lines = json.load(sys.stdin)
results = {}
for size in (1, 7, len(lines)):
    texts, scores = [], []
    for start in range(0, len(lines), size):
        batch = tf.constant(lines[start : start + size])
        found = loaded.signatures["serving_default"](source=batch)
        texts += [text.decode() for text in found["translation"].numpy()]
        scores += found["score"].numpy().tolist()
    results[size] = texts, scores
assert "keras_transformer" not in sys.modules and "keras" not in {type(loaded).__module__}
print(json.dumps(results))
"""


def test_a_fresh_process_without_this_package_says_the_same_at_any_batch_size(world, tmp_path):
    model, vocabularies, path, lines = world.model, world.vocabularies, world.path, world.lines
    expected = Translator.from_model(model, vocabularies, world.config).translations(lines)
    result = subprocess.run(
        [sys.executable, "-c", _FRESH, str(path)],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    for texts, scores in json.loads(result.stdout.splitlines()[-1]).values():
        assert texts == [found[0].text for found in expected]
        np.testing.assert_allclose(scores, [found[0].score for found in expected], atol=1e-4)


def test_the_ids_signature_takes_any_padding_and_agrees_with_the_text(world):
    vocabularies, path, lines = world.vocabularies, world.path, world.lines
    loaded = tf.saved_model.load(str(path))
    lines = [*lines[:10], "word " * 100]  # the last is cut, by either signature
    ids = vocabularies.source.tokenize(lines)
    ids = tf.concat([ids, tf.fill((len(lines), 1), END_ID)], axis=1)
    assert ids.row_lengths()[-1] > world.config.max_source_length
    padded = ids.to_tensor(default_value=17)  # as a server that pads with anything would
    found = loaded.signatures["ids"](
        source_ids=padded, source_lengths=tf.cast(ids.row_lengths(), tf.int32)
    )
    rows = tf.RaggedTensor.from_tensor(found["ids"], found["lengths"])
    texts = vocabularies.target.detokenize(rows).numpy().tolist()
    expected = loaded.signatures["serving_default"](source=tf.constant(lines))
    assert texts == expected["translation"].numpy().tolist()
    np.testing.assert_allclose(found["score"], expected["score"], atol=1e-5)


def test_an_export_of_ids_alone_loads_with_tensorflow_alone(world, tmp_path):
    path = tmp_path / "ids" / "1"
    export_saved_model(world.model, world.vocabularies, world.config, path, ids_only=True)
    code = (
        "import sys, json, tensorflow as tf\n"
        "search = tf.saved_model.load(sys.argv[1]).signatures['ids']\n"
        "found = search(source_ids=tf.constant([[20, 7, 3], [9, 3, 0]]),\n"
        "               source_lengths=tf.constant([3, 2]))\n"
        "assert 'tensorflow_text' not in sys.modules and 'keras_transformer' not in sys.modules\n"
        "print(json.dumps(found['ids'].numpy().tolist()))\n"
    )
    command = [sys.executable, "-c", code, path]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    search = tf.saved_model.load(str(world.path)).signatures["ids"]
    ids = tf.constant([[20, 7, 3], [9, 3, 0]])
    expected = search(source_ids=ids, source_lengths=tf.constant([3, 2]))["ids"].numpy().tolist()
    assert json.loads(result.stdout) == expected
    with pytest.raises(ValueError, match="takes ids alone.*--ids-only"):
        load(path)
    assert list(describe(path)["signatures"]) == ["ids"]


def test_no_sentence_in_gives_none_out(world):
    signatures = tf.saved_model.load(str(world.path)).signatures
    none = tf.constant([], tf.string)
    for name, inputs in {
        "serving_default": {"source": none},
        "nbest": {"source": none},
        "score_pairs": {"source": none, "target": none},
        "ids": {
            "source_ids": tf.zeros((0, 4), tf.int32),
            "source_lengths": tf.zeros((0,), tf.int32),
        },
    }.items():
        for output in signatures[name](**inputs).values():
            assert len(output) == 0, name


def test_n_best_are_sorted_and_their_first_is_the_translation(world):
    path, lines = world.path, world.lines
    loaded = tf.saved_model.load(str(path))
    batch = tf.constant(lines[:20])
    found = loaded.signatures["nbest"](source=batch)
    assert found["translation"].shape == (20, 3)
    assert np.all(np.diff(found["score"].numpy(), axis=1) <= 0)
    best = loaded.signatures["serving_default"](source=batch)
    np.testing.assert_array_equal(found["translation"][:, 0], best["translation"])


def test_score_pairs_gives_the_log_probability_of_the_model(world):
    model, vocabularies, path, lines = world.model, world.vocabularies, world.path, world.lines
    loaded = tf.saved_model.load(str(path))
    targets = lines[5:15]
    found = loaded.signatures["score_pairs"](
        source=tf.constant(lines[:10]), target=tf.constant(targets)
    )["log_probability"].numpy()
    for source, target, score in zip(lines[:10], targets, found, strict=True):
        source_ids = vocabularies.source.tokenize([source]).to_list()[0]
        target_ids = vocabularies.target.tokenize([target]).to_list()[0]
        logits = model([np.array([[*source_ids, END_ID]]), np.array([[2, *target_ids]])])
        log_probs = tf.nn.log_softmax(logits)[0].numpy()
        expected = sum(log_probs[i, token] for i, token in enumerate([*target_ids, END_ID]))
        assert score == pytest.approx(expected, rel=1e-4)


def test_loading_gives_a_translator_that_refuses_other_options(world):
    model, vocabularies, path, lines = world.model, world.vocabularies, world.path, world.lines
    translator = load(path)
    assert translator.config == world.config
    expected = Translator.from_model(model, vocabularies, world.config)(lines[:9], n_best=2)
    assert translator(lines[:9], n_best=2) == expected
    with pytest.raises(ValueError, match=r"fixed at export. Received: beam_size=2 \(here 3\)"):
        translator(["x"], beam_size=2)


def test_an_export_is_never_written_over_and_versions_count_up(world, tmp_path):
    model, vocabularies, path = world.model, world.vocabularies, world.path
    with pytest.raises(ValueError, match="exists already"):
        export_saved_model(model, vocabularies, world.config, path)
    assert next_version(tmp_path) == tmp_path / "1"
    (tmp_path / "2").mkdir()
    (tmp_path / "9").mkdir()
    (tmp_path / "x").mkdir()
    assert next_version(tmp_path) == tmp_path / "10"


def test_what_is_no_export_is_named(tmp_path):
    with pytest.raises(ValueError, match="is not a SavedModel"):
        load(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match="was not exported by keras_transformer"):
        load(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["variables/variables.data-00000-of-00001", "saved_model.pb", "variables/variables.index"],
)
def test_a_damaged_export_is_said_to_be_so(world, tmp_path, name):
    path = tmp_path / "1"
    shutil.copytree(world.path, path)
    (path / name).write_bytes((path / name).read_bytes()[:1000])
    with pytest.raises(ValueError, match="is damaged: .* Export the model again"):
        load(path)
    (path / name).unlink()
    with pytest.raises(ValueError, match="is damaged|is not a SavedModel"):
        load(path)
