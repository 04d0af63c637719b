"""XLA finds what the graph finds, whatever the options."""

import numpy as np
import pytest

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding.translator import Translator
from keras_transformer.text.vocabulary import Vocabularies

LINES = [
    "the man rides a horse",
    "dogs run",
    "",
    "a woman reads the red book in the park and the child sees the dogs",
    "horse",
]
CONFIG = DecodingConfig(beam_size=3, extra_length=6, batch_size=3, max_source_length=40)
CASES = {
    "beam": ({}, {"n_best": 3}),
    "greedy": ({}, {"beam_size": 1, "max_length": 4}),
    "all the options": ({"attention_window": 6}, {"beta": 0.2, "min_length": 4, "alpha": 1.0}),
    "no repetition": ({"positions": "learned"}, {"no_repeat_ngram": 2}),
    "prefixes": ({"norm": "pre"}, {"prefixes": ["the dogs", "", "", "a", "run run run run"]}),
    "sampling": ({}, {"temperature": 0.8, "top_p": 0.9, "n_best": 2, "seed": 7}),
}


@pytest.fixture(scope="module")
def vocabularies():
    return Vocabularies.learn(LINES, LINES, "wordpiece", vocab_size=60)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == "all the options" else pytest.mark.slow) for n in CASES],
)
def test_a_compiled_search_finds_the_same(make_model, vocabularies, name):
    changes, options = CASES[name]
    model = make_model(3, vocab_size=vocabularies.source.vocab_size, **changes)
    graph, compiled = (
        Translator.from_model(model, vocabularies, CONFIG, jit_compile=jit).translations(
            LINES, **options
        )
        for jit in (False, True)
    )
    texts = [[[one.text for one in row] for row in found] for found in (graph, compiled)]
    assert texts[0] == texts[1] and len({row[0] for row in texts[0]}) > 3
    scores = [[[one.score for one in row] for row in found] for found in (graph, compiled)]
    np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_ensemble_compiles_and_no_line_gives_none(make_model, vocabularies):
    size = vocabularies.source.vocab_size
    models = [make_model(seed, vocab_size=size) for seed in (3, 4)]
    graph, compiled = (
        Translator.from_model(models, vocabularies, CONFIG, jit_compile=jit)
        for jit in (False, True)
    )
    assert (
        compiled(LINES)
        == graph(LINES)
        != Translator.from_model(models[0], vocabularies, CONFIG)(LINES)
    )
    assert compiled([]) == []
