"""TFDS's own builder of WMT 2014 unpacks, parses and writes archives of the right names.

The archives hold a few real sentences in place of gigabytes, and lie where TFDS keeps its
downloads.
"""

import errno
import gzip
import io
import json
import pathlib
import subprocess
import sys
import tarfile

import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums, resource

from keras_transformer.data.prepared import PreparedPairs
from keras_transformer.data.tfds import load_tfds
from keras_transformer.text.lines import read_lines

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_WMT = "http://www.statmt.org/wmt"
UN, GIGA = f"{_WMT}13/training-parallel-un.tgz", f"{_WMT}10/training-giga-fren.tar"
ONLY_FRENCH = (UN, GIGA)
DEV = "http://data.statmt.org/wmt19/translation-task/dev.tgz"
PARTS = [  # archive, names of the files in it, split
    (
        f"{_WMT}13/training-parallel-europarl-v7.tgz",
        ("training/europarl-v7.{pair}.{other}", "training/europarl-v7.{pair}.en"),
        "train",
    ),
    (
        f"{_WMT}13/training-parallel-commoncrawl.tgz",
        ("commoncrawl.{pair}.{other}", "commoncrawl.{pair}.en"),
        "train",
    ),
    (UN, ("un/undoc.2000.{pair}.{other}", "un/undoc.2000.{pair}.en"), "train"),
    (
        f"{_WMT}14/training-parallel-nc-v9.tgz",
        ("training/news-commentary-v9.{pair}.{other}", "training/news-commentary-v9.{pair}.en"),
        "train",
    ),
    (GIGA, ("giga-fren.release2.fixed.fr.gz", "giga-fren.release2.fixed.en.gz"), "train"),
    (DEV, ("dev/newstest2013.{other}", "dev/newstest2013.en"), "validation"),
    (
        DEV,
        ("dev/newstest2014-{other}en-src.{other}.sgm", "dev/newstest2014-{other}en-ref.en.sgm"),
        "test",
    ),
]


def place(builder, data_dir, url, files):
    """Puts an archive of {name: content} where TFDS looks for the download of `url`."""
    expected = {**checksums.get_all_url_infos(), **builder.url_infos}[url]
    path = data_dir / "downloads" / builder.name / resource.get_dl_fname(url, expected.checksum)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if url.endswith("gz") else "w") as archive:
        for name, lines in files.items():
            data = "".join(f"{line}\n" for line in lines).encode()
            data = gzip.compress(data) if name.endswith(".gz") else data
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    resource.write_info_file(url, path, builder.name, url.rsplit("/", 1)[-1], expected)


def sgm(lines):
    return ["<doc>", *(f'<seg id="{i}">{line}</seg>' for i, line in enumerate(lines, 1)), "</doc>"]


@pytest.fixture
def placed(real_data, tmp_path):
    """Places 10 sentences an archive, of English and another language; gives all by language."""

    def place_all(other):
        text = {
            side: read_lines(real_data / "newstest" / f"newstest2013.{side}.gz")[: 10 * len(PARTS)]
            for side in (other, "en")
        }
        builder = tfds.builder(f"wmt14_translate/{other}-en", data_dir=tmp_path)
        archives = {}
        for i, (url, names, _) in enumerate(PARTS):
            if url in ONLY_FRENCH and other != "fr":
                continue
            for name, side in zip(names, (other, "en"), strict=True):
                lines = text[side][10 * i : 10 * i + 10]
                content = sgm(lines) if name.endswith("sgm") else lines
                name = name.format(pair=f"{other}-en", other=other)
                archives.setdefault(url, {})[name] = content
        for url, files in archives.items():
            place(builder, tmp_path, url, files)
        return text

    return place_all


@pytest.mark.parametrize("other", ["de", "fr"])
def test_every_split_comes_out_whole_in_either_direction(placed, tmp_path, other):
    sentences, name = placed(other), f"wmt14_translate/{other}-en"
    both = list(zip(sentences["en"], sentences[other], strict=True))
    for split in ("train", "validation", "test"):
        expected = [
            pair
            for i, (url, _, its) in enumerate(PARTS)
            for pair in both[10 * i : 10 * i + 10]
            if its == split and (other == "fr" or url not in ONLY_FRENCH)
        ]
        text = load_tfds(name, "en", other, split, tmp_path)
        assert sorted(zip(text.source, text.target, strict=True)) == sorted(expected)
        assert text.name == f"{name} {split}"
        back = load_tfds(name, other, "en", split, tmp_path)
        assert (back.source, back.target) == (text.target, text.source)


@pytest.mark.slow
def test_a_recipe_goes_from_the_archives_to_the_papers_bleu(placed, tmp_path):
    other, size = "fr", 200
    placed(other)
    small = ["model.num_layers=1", "model.d_model=16", "model.d_ff=16", "model.num_heads=2"]
    small += [f"model.vocab_size={size}", "training.steps=3", "training.checkpoint_steps=1"]
    small += ["training.batch_tokens=512", "decoding.extra_length=5"]
    command = [sys.executable, ROOT / "trainers" / "train_wmt.py"]
    command += ["--recipe", f"paper/en{other}-base", "--data-dir", tmp_path]
    command += ["--run-dir", tmp_path / "run", "--export-to", tmp_path / "exports"]
    command += [flag for setting in small for flag in ("--set", setting)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["updates"] == 3 and report["averaged_updates"] == [1, 2, 3]
    assert report["test"]["sentences"] == 10 and report["test"]["paper_bleu"] >= 0
    prepared = PreparedPairs(tmp_path / "run" / "prepared")
    assert len(prepared) + sum(prepared.dropped.values()) == 50


def test_languages_in_the_wrong_order_are_said_to_be_so(tmp_path):
    with pytest.raises(ValueError, match="cs-en, de-en, fr-en, hi-en, ru-en.*--source.*en-de"):
        load_tfds("wmt14_translate/en-de", "en", "de", "train", tmp_path)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("Max retries exceeded"), "ConnectionError: Max retries.*network"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    ],
)
def test_no_network_or_disk_is_an_error_that_says_where_to_put_the_archives(
    tmp_path, monkeypatch, error, message
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(tfds.core.download.DownloadManager, "download_and_extract", fail)
    with pytest.raises(ValueError, match=message) as caught:
        load_tfds("wmt14_translate/de-en", "en", "de", "train", tmp_path)
    assert str(tmp_path) in str(caught.value) and "downloads" in str(caught.value)
