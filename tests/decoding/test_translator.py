"""Lines in, as many out, in their order, whatever the batch; each is what the search finds."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding.beam import beam_search
from keras_transformer.decoding.graph import GraphBackend, TranslationGraph
from keras_transformer.decoding.incremental import IncrementalDecoder
from keras_transformer.decoding.scoring import score_pairs
from keras_transformer.decoding.translator import Translator
from keras_transformer.machine import cores
from keras_transformer.text.vocabulary import Vocabularies

LINES = [
    "the man rides a horse",
    "dogs run",
    "",
    "a woman reads the red book in the park",
    "the child sees",
    "horse",
]
CONFIG = DecodingConfig(beam_size=3, extra_length=4, batch_size=2, max_source_length=50)


@pytest.fixture(scope="module")
def vocabularies():
    return Vocabularies.learn(LINES, LINES, "wordpiece", vocab_size=50)


@pytest.fixture(scope="module")
def model(make_model, vocabularies):
    return make_model(seed=2, vocab_size=vocabularies.source.vocab_size)


@pytest.fixture(scope="module")
def translator(model, vocabularies):
    return Translator.from_model(model, vocabularies, CONFIG)


def pieces(tokenizer, line):
    """[1, length] ids with the end mark, cut to the configured length."""
    ids = tokenizer.tokenize([line]).to_list()[0][: CONFIG.max_source_length - 1]
    return np.array([[*ids, 3]], np.int32)


def test_each_line_gets_what_the_search_finds_for_it_alone(translator, model, vocabularies):
    found = translator.translations(LINES, n_best=2)
    assert len(found) == len(LINES) and len({one[0].text for one in found}) > 3
    for line, (first, second) in zip(LINES, found, strict=True):
        ids, lengths, scores = beam_search(
            IncrementalDecoder(model), pieces(vocabularies.source, line), CONFIG, n_best=2
        )
        texts = [
            vocabularies.target.detokenize([row[:length].tolist()]).numpy()[0].decode()
            for row, length in zip(ids[0].numpy(), lengths[0].numpy(), strict=True)
        ]
        assert [first.text, second.text] == texts
        np.testing.assert_allclose([first.score, second.score], scores[0], rtol=1e-4)


def test_lines_keep_their_number_and_order_in_batches_of_any_size(translator, model, vocabularies):
    expected = translator(LINES)
    assert expected[2] == "" and all(isinstance(text, str) for text in expected)
    assert translator(LINES[::-1]) == expected[::-1]
    large = Translator.from_model(model, vocabularies, CONFIG.replace(batch_size=50))
    assert large(LINES) == expected
    assert translator([]) == [] and translator(["", ""]) == ["", ""]


@pytest.mark.skipif(cores() < 2, reason="needs two cores")
def test_batches_run_side_by_side_on_cpus_and_change_nothing(translator, model, vocabularies):
    class Meeting(GraphBackend):
        """Answers, but for the first batch, once two ask at the same time."""

        def __init__(self, graph):
            super().__init__(graph)
            self.calls, self.barrier = [], threading.Barrier(2, timeout=60)

        def translate(self, source, *options):
            self.calls.append(len(source))
            if len(self.calls) > 1:
                self.barrier.wait()
            return super().translate(source, *options)

    backend = Meeting(TranslationGraph(model, vocabularies, CONFIG.max_source_length))
    lines = LINES + LINES[:4]  # in batches of two: one, and two meetings
    assert Translator(backend, CONFIG)(lines) == translator(lines)
    assert backend.calls == [2] * 5


def test_what_fails_in_a_batch_is_what_the_caller_sees(model, vocabularies):
    class Failing(GraphBackend):
        def translate(self, source, *options):
            if len(source) == 1:  # the last batch
                raise ValueError("no room")
            return super().translate(source, *options)

    backend = Failing(TranslationGraph(model, vocabularies, CONFIG.max_source_length))
    with pytest.raises(ValueError, match="no room"):
        Translator(backend, CONFIG)(LINES[:5])


def test_n_best_gives_lists_best_first_and_a_calls_options_replace_the_configured(translator):
    lists = translator(LINES, n_best=3)
    assert [len(texts) for texts in lists] == [3] * len(LINES)
    assert [texts[0] for texts in lists] == translator(LINES)
    for one in translator.translations(LINES, n_best=3):
        scores = [translation.score for translation in one]
        assert scores == sorted(scores, reverse=True)
    scores = [
        [one[0].score for one in translator.translations(LINES, **options)]
        for options in ({}, {"beam_size": 3, "alpha": 0.6}, {"beam_size": 1}, {"alpha": 0})
    ]
    assert scores[0] == scores[1] and scores[2] != scores[0] and scores[3] != scores[0]


def test_blanks_alone_are_an_empty_line(make_model):
    vocabularies = Vocabularies.learn(LINES, LINES, "bpe", vocab_size=290)
    model = make_model(vocab_size=vocabularies.source.vocab_size)
    graph = TranslationGraph(model, vocabularies, CONFIG.max_source_length)
    ids = graph.source_ids(tf.constant(["", "   ", "\u3000\t\u00a0\u2028", " a"])).numpy()
    assert ids[:3, 0].tolist() == [3, 3, 3] and not ids[:3, 1:].any() and ids[3, 0] != 3


def test_a_long_line_is_cut_with_a_warning_and_not_refused(translator):
    words = LINES[3].split() * 30
    with pytest.warns(UserWarning, match="1 of 2 lines have more than max_source_length=50 tokens"):
        found = translator([" ".join(words), LINES[0]])
    with pytest.warns(UserWarning, match="begins: 'a woman reads the red book"):
        assert translator([" ".join(words[:40])]) == found[:1]


def test_learned_positions_cut_a_longer_source_with_a_warning_too(make_model, vocabularies):
    size, line = vocabularies.source.vocab_size, LINES[3]
    model = make_model(2, vocab_size=size, positions="learned", max_positions=7)
    translator = Translator.from_model(model, vocabularies, CONFIG)
    assert translator.config.max_source_length == 7
    with pytest.warns(UserWarning, match="1 of 2 lines have more than max_source_length=7 tokens"):
        found = translator.translations([line, LINES[1]])
    cut = np.append(pieces(vocabularies.source, line)[:, :6], [[3]], axis=1)
    expected = beam_search(IncrementalDecoder(model), cut, CONFIG)
    np.testing.assert_allclose(found[0][0].score, expected.scores[0, 0], rtol=1e-4)


_DEVICES = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from keras_transformer.decoding.translator import _side_by_side
with tf.device("CPU:1"):
    print(*_side_by_side(lambda batch: tf.zeros(batch).device[-5:], [1, 2, 3], 2))
"""


def test_all_batches_run_on_the_device_that_the_caller_chose():
    command = [sys.executable, "-c", _DEVICES]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["CPU:1"] * 3, result.stderr[-2000:]


def test_prefixes_are_what_translations_begin_with_line_by_line(translator):
    prefixes = ["the book", "", "", "red", "", "dogs"]
    found = translator(LINES, prefixes=prefixes)
    for text, prefix, free in zip(found, prefixes, translator(LINES), strict=True):
        assert text.startswith(prefix) if prefix else text == free
    assert translator(LINES[::-1], prefixes=prefixes[::-1]) == found[::-1]


def test_every_option_of_the_search_can_be_given_in_a_call(translator):
    drawn = translator(LINES, n_best=4, temperature=1.0, seed=1)
    assert drawn == translator(LINES, n_best=4, temperature=1.0, seed=1, batch_size=5)
    assert drawn != translator(LINES, n_best=4, temperature=1.0, seed=2)
    assert [len(texts) for texts in drawn] == [4] * len(LINES)  # more than there are beams
    short = translator(LINES, max_length=2)
    assert all(len(text.split()) <= 2 for text in short) and short != translator(LINES)


def test_an_ensemble_of_one_model_twice_says_what_the_model_says(translator, model, vocabularies):
    twice = Translator.from_model([model, model], vocabularies, CONFIG)
    for found, expected in zip(
        twice.translations(LINES), translator.translations(LINES), strict=True
    ):
        assert found[0].text == expected[0].text
        np.testing.assert_allclose(found[0].score, expected[0].score, rtol=1e-4, atol=1e-6)


def test_two_models_together_say_what_neither_says_alone(make_model, model, vocabularies):
    size = vocabularies.source.vocab_size
    models = [model, make_model(seed=8, vocab_size=size)]
    alone = [Translator.from_model(one, vocabularies, CONFIG).translations(LINES) for one in models]
    together = Translator.from_model(models, vocabularies, CONFIG)
    found = together.translations(LINES)
    assert found[0] not in (alone[0][0], alone[1][0])
    texts = [one[0].text for one in found]
    scores = together.score(LINES, texts)
    for line, one, score in zip(LINES, found, scores, strict=True):
        if line and not one[0].text.startswith(" "):  # the text may be spelt in other pieces
            assert score <= 0.0 and np.isfinite(score)


def test_a_lone_surrogate_is_a_question_mark(translator):
    assert translator(["dogs \ud800"]) == translator(["dogs ?"])


def test_changed_weights_change_what_a_translator_says(make_model, vocabularies):
    other = make_model(seed=8, vocab_size=vocabularies.source.vocab_size)
    weights = other.get_weights()
    translator = Translator.from_model(other, vocabularies, CONFIG)
    before = translator.translations(LINES[:1])
    other.set_weights([0.5 * weight for weight in weights])
    assert translator.translations(LINES[:1])[0][0].score != before[0][0].score
    other.set_weights(weights)
    assert translator.translations(LINES[:1]) == before


def test_the_score_of_a_pair_is_its_log_probability(translator, model, vocabularies):
    found = translator.score(LINES, LINES[::-1])
    for source, target, score in zip(LINES, LINES[::-1], found, strict=True):
        out = np.array([[*vocabularies.target.tokenize([target]).to_list()[0], 3]], np.int32)
        target_in = np.insert(out[:, :-1], 0, 2, axis=1)
        expected = score_pairs(model, pieces(vocabularies.source, source), target_in, out)
        np.testing.assert_allclose(score, expected[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t("dogs run"), "one string; give"),
        (lambda t: tf.function(lambda: t(LINES), autograph=False)(), "which a tf.function has not"),
        (lambda t: t(None), "`lines` should be a list of sentences. Received: None"),
        (lambda t: t(["a", b"b"]), r"Received: lines\[1\]=b'b'"),
        (lambda t: t(LINES, n_best=1.5), "Received: n_best=1.5"),
        (lambda t: t(LINES, beam_size=0), "beam_size should be at least 1"),
        (lambda t: t([], alpha=-1), "alpha should be 0 or more"),
        (lambda t: t(LINES, n_best=4), "at most beam_size=3. Received: n_best=4"),
        (lambda t: t(LINES, n_best=0, temperature=1.0), "at least 1"),
        (lambda t: t(LINES, prefixes=["a"]), "`prefixes` should be 6, one a line. Received: 1"),
        (lambda t: t.score(LINES, ["a"]), "`targets` should be 6"),
        (lambda t: t(LINES, top_k=5), "Set temperature above 0"),
        (lambda t: t(LINES, max_source_length=9), "make another Translator"),
        (lambda t: t(LINES, beams=9), "no field 'beams'. It has: alpha, .*beam_size"),
    ],
)
def test_mistaken_calls_are_errors_that_name_the_remedy(translator, call, message):
    with pytest.raises(ValueError, match=message):
        call(translator)
