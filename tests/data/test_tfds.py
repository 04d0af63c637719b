"""Datasets of TFDS by name; its own TranslateFolder-like builder runs on files made here."""

import pytest
import tensorflow_datasets as tfds

from keras_transformer.data.tfds import load_tfds


class TinyTranslate(tfds.core.GeneratorBasedBuilder):
    """A translation dataset of two languages, built on the spot."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.Translation(languages=("en", "de"))
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(5), "validation": self._generate_examples(2)}

    def _generate_examples(self, count):
        for i in range(count):
            yield i, {"en": f"number {i}", "de": f"Zahl\n{i}"}


def test_pairs_come_from_a_dataset_by_name_in_either_direction(tmp_path):
    text = load_tfds("tiny_translate", "en", "de", "train", tmp_path)
    assert sorted(zip(text.source, text.target, strict=True)) == [
        (f"number {i}", f"Zahl {i}") for i in range(5)
    ]
    text = load_tfds("tiny_translate", "de", "en", "validation[:1]", tmp_path)
    assert len(text) == 1 and text.source[0].startswith("Zahl")


def test_errors_name_what_there_is(tmp_path):
    with pytest.raises(ValueError, match="no dataset 'no_such_set'"):
        load_tfds("no_such_set", "en", "de", "train", tmp_path)
    with pytest.raises(ValueError, match="languages .*Received: source='en', target='fr'"):
        load_tfds("tiny_translate", "en", "fr", "train", tmp_path)
    assert load_tfds("tiny_translate", "en", "de", "test", tmp_path, required=False) is None
    with pytest.raises(ValueError, match="splits train, validation. Received: split='test'"):
        load_tfds("tiny_translate", "en", "de", "test", tmp_path)
