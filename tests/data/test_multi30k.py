"""Our builder of Multi30k reads the dataset's own files."""

import pytest

from keras_transformer.data.multi30k import Multi30k
from keras_transformer.data.tfds import load_tfds
from keras_transformer.text.lines import read_lines, write_lines


def test_files_placed_by_hand_come_out_line_by_line(real_data, tmp_path):
    manual = tmp_path / "downloads" / "manual"
    manual.mkdir(parents=True)
    for file, most in (("train", 2000), ("val", 1014), ("test_2016_flickr", 1000)):
        for name in (f"{file}.en.gz", f"{file}.de.gz"):
            write_lines(manual / name, read_lines(real_data / "multi30k" / name)[:most])
    for split, file, count in (
        ("train", "train", 2000),  # (of 29,000)
        ("validation", "val", 1014),
        ("test", "test_2016_flickr", 1000),
    ):
        text = load_tfds("multi30k/de-en", "en", "de", split, tmp_path)
        expected = zip(*(read_lines(manual / f"{file}.{s}.gz") for s in ("en", "de")), strict=True)
        assert len(text) == count
        assert sorted(zip(text.source, text.target, strict=True)) == sorted(expected)


def test_files_of_another_length_are_an_error_with_their_numbers(tmp_path):
    manual = tmp_path / "downloads" / "manual"
    manual.mkdir(parents=True)
    for file in ("train", "val", "test_2016_flickr"):
        write_lines(manual / f"{file}.en.gz", ["a", "b"])
        write_lines(manual / f"{file}.fr.gz", ["a", "b", "c"][: 3 if file == "val" else 2])
    with pytest.raises(ValueError, match="not of one text.* 3 in .*val.fr.gz"):
        load_tfds("multi30k/fr-en", "fr", "en", "train", tmp_path)


def test_a_damaged_file_is_named_with_the_folder_to_mend_it_in(tmp_path):
    manual = tmp_path / "downloads" / "manual"
    manual.mkdir(parents=True)
    for file in ("train", "val", "test_2016_flickr"):
        for side in ("en", "de"):
            write_lines(manual / f"{file}.{side}.gz", ["some words"] * 100)
    damaged = manual / "val.en.gz"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    with pytest.raises(ValueError, match="val.en.gz is damaged.*downloads/manual"):
        load_tfds("multi30k/de-en", "en", "de", "train", tmp_path)


def test_what_is_not_there_is_downloaded_from_the_datasets_repository(tmp_path, monkeypatch):
    asked = []

    def download(manager, urls):
        asked.extend(urls.values())
        raise ConnectionError("no network")

    monkeypatch.setattr("tensorflow_datasets.core.download.DownloadManager.download", download)
    manual = tmp_path / "downloads" / "manual"
    manual.mkdir(parents=True)
    write_lines(manual / "train.en.gz", ["a"])
    with pytest.raises(ValueError, match="no network"):
        load_tfds("multi30k/de-en", "en", "de", "train", tmp_path)
    assert len(asked) == 5
    assert all(url.startswith("https://github.com/multi30k/dataset/raw/") for url in asked)


def test_it_names_its_source_and_terms(tmp_path):
    info = Multi30k(config="de-en", data_dir=tmp_path).info
    assert "W16-3210" in info.citation and "not commercial" in info.redistribution_info.license
    assert list(info.features) == ["de", "en"]
