"""One vocabulary of each kind, learnt from real sentences, for all tests here."""

import pytest

from keras_transformer.text.lines import read_lines
from keras_transformer.text.vocabulary import learn_tokenizer


@pytest.fixture(scope="session")
def captions(real_data):
    """Multi30k: English and German sentences, 2,000 of each."""
    return [
        line
        for language in ("en", "de")
        for line in read_lines(real_data / f"multi30k/train.{language}.gz")[:2000]
    ]


@pytest.fixture(scope="session")
def bpe(captions):
    return learn_tokenizer(captions, "bpe", 2000)


@pytest.fixture(scope="session")
def wordpiece(captions):
    return learn_tokenizer(captions, "wordpiece", 2000)


@pytest.fixture(params=["bpe", "wordpiece"])
def tokenizer(request):
    return request.getfixturevalue(request.param)
