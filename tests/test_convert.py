"""CTranslate2, an engine that shares no code with ours, translates our models as we do."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import END_ID, DecodingConfig, TransformerConfig
from keras_transformer.convert import to_ctranslate2
from keras_transformer.decoding.incremental import IncrementalDecoder
from keras_transformer.decoding.sampling import greedy_search
from keras_transformer.model import build_transformer
from keras_transformer.text.vocabulary import Vocabularies

ctranslate2 = pytest.importorskip("ctranslate2")

VARIANTS = {
    "paper": {},
    "pre": {"norm": "pre", "activation": "gelu", "num_decoder_layers": 1},
    "untied": {"tie_embeddings": "none", "positions": "learned", "max_positions": 200},
    "tensor2tensor": {"tie_embeddings": "target", "positions": "concatenated"},
}


@pytest.fixture(scope="module")
def sentences(real_data):
    with gzip.open(real_data / "multi30k" / "val.en.gz", "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:500]


@pytest.fixture(scope="module")
def vocabularies(sentences):
    return Vocabularies.learn(sentences, sentences, vocab_size=600)


def random_model(**changes):
    config = TransformerConfig(vocab_size=600, num_layers=2, d_model=32, d_ff=64, num_heads=4)
    model = build_transformer(config.replace(**changes))
    generator = np.random.default_rng(3)
    for variable in model.trainable_variables:
        values = generator.normal(0, 0.2, variable.shape)
        start = variable.numpy() if "norm" in variable.path else 0.0  # (others begin at random)
        variable.assign(start + (0.3 * values if "norm" in variable.path else values))
    return model


@pytest.mark.parametrize("name", VARIANTS)
def test_five_hundred_real_sentences_come_out_alike_with_like_scores(
    tmp_path, sentences, vocabularies, name
):
    model, ids = random_model(**VARIANTS[name]), vocabularies.source.tokenize(sentences)
    decoder = IncrementalDecoder(model)
    config = DecodingConfig(beam_size=1, alpha=0.0, extra_length=1000, max_length=20)
    search = tf.function(lambda ids: greedy_search(decoder, ids, config), autograph=False)
    with_end = tf.concat([ids, tf.fill((len(sentences), 1), END_ID)], axis=1)
    ours = search(with_end.to_tensor())
    to_ctranslate2(model, vocabularies, tmp_path / "model")
    engine = ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32")
    theirs = engine.translate_batch(
        [vocabularies.source.pieces(row) for row in ids.to_list()],
        beam_size=1,
        length_penalty=0.0,
        max_decoding_length=20,
        return_scores=True,
        disable_unk=False,
    )
    results = set()
    for row, length, score, other in zip(
        ours.ids[:, 0].numpy(), ours.lengths[:, 0].numpy(), ours.scores[:, 0], theirs, strict=True
    ):
        pieces, its = vocabularies.target.pieces(row[:length]), other.hypotheses[0]
        if {"<pad>", "<s>"} & set(its):  # we never say these
            continue
        results.add((pieces == its, tuple(pieces)))
        if pieces == its:
            np.testing.assert_allclose(score, other.scores[0], rtol=1e-3, atol=1e-3)
    assert len(results) > 5  # (a random model repeats itself; the scores are of 500 sources)
    assert sum(not same for same, _ in results) < 5  # (a tie may fall either way)


def test_what_the_engine_has_not_is_refused_by_name(tmp_path, vocabularies):
    for changes, message in (
        ({"attention_window": 4}, "no attention_window"),
        ({"activation": "selu"}, "no activation 'selu'"),
        ({"d_k": 4}, "no d_k or d_v that is not"),
    ):
        with pytest.raises(ValueError, match=message):
            to_ctranslate2(random_model(**changes), vocabularies, tmp_path / "model")
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match="exists already"):
        to_ctranslate2(random_model(), vocabularies, tmp_path / "there")
