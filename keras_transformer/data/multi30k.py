"""Multi30k as a TFDS dataset: 29,000 image captions in English, German and French."""

from __future__ import annotations

import tensorflow_datasets as tfds

from keras_transformer.text.lines import read_lines

_URL = "https://github.com/multi30k/dataset"
_FILES = f"{_URL}/raw/master/data/task1/raw"
_SPLITS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
_CITATION = """
@inproceedings{elliott-etal-2016-multi30k,
    title = "{M}ulti30{K}: Multilingual {E}nglish-{G}erman Image Descriptions",
    author = "Elliott, Desmond and Frank, Stella and Sima{'}an, Khalil and Specia, Lucia",
    booktitle = "Proceedings of the 5th Workshop on Vision and Language",
    year = "2016",
    pages = "70--74",
    doi = "10.18653/v1/W16-3210",
}
@inproceedings{elliott-etal-2017-findings,
    title = "Findings of the Second Shared Task on Multimodal Machine Translation and Multilingual
        Image Description",
    author = {Elliott, Desmond and Frank, Stella and Barrault, Lo{\\"i}c and Bougares, Fethi and
        Specia, Lucia},
    booktitle = "Proceedings of the Second Conference on Machine Translation",
    year = "2017",
    pages = "215--233",
    doi = "10.18653/v1/W17-4718",
}
"""


class Multi30k(tfds.core.GeneratorBasedBuilder):
    """Task 1 of Multi30k, raw text: "multi30k/de-en" and "multi30k/fr-en".

    Splits: train (29,000 pairs), validation (1,014), test (1,000; test_2016_flickr).

    Example:
        >>> builder = Multi30k(config="de-en")
        >>> builder.download_and_prepare()
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "Task 1, test_2016_flickr."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Nothing needs to be placed by hand. Files that are there (train.en.gz, train.de.gz, "
        "val.en.gz, ..., test_2016_flickr.de.gz) are taken in place of downloads."
    )
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(
            name=f"{other}-en", description=f"{language} and English, pair by pair."
        )
        for other, language in {"de": "German", "fr": "French"}.items()
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        languages = tuple(self.builder_config.name.split("-"))
        return tfds.core.DatasetInfo(
            builder=self,
            description="Captions of Flickr30k's images, with translations made by people.",
            features=tfds.features.Translation(languages=languages),
            supervised_keys=languages,
            homepage=_URL,
            citation=_CITATION,
            license="Research and education, not commercial: the terms of Flickr and of Flickr30k.",
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager):
        names = {
            (split, language): f"{file}.{language}.gz"
            for split, file in _SPLITS.items()
            for language in self.builder_config.name.split("-")
        }
        try:
            paths = {key: dl_manager.manual_dir / name for key, name in names.items()}
        except AssertionError:  # there is no such folder, or nothing in it
            paths = {}
        paths = {key: path for key, path in paths.items() if path.exists()}
        missing = {key: f"{_FILES}/{name}" for key, name in names.items() if key not in paths}
        paths.update(dl_manager.download(missing))
        return {
            split: self._generate_examples(
                {language: path for (its, language), path in paths.items() if its == split}
            )
            for split in _SPLITS
        }

    def _generate_examples(self, paths):
        lines = {}
        for language, path in paths.items():
            try:
                lines[language] = read_lines(path)
            except ValueError as error:
                raise ValueError(f"{path} is damaged: {error}") from error
        if len({len(column) for column in lines.values()}) > 1:
            counts = ", ".join(f"{len(column)} in {paths[key]}" for key, column in lines.items())
            raise ValueError(f"The files are not of one text: they have {counts} lines.")
        for i, sentences in enumerate(zip(*lines.values(), strict=True)):
            yield i, dict(zip(lines, sentences, strict=True))
