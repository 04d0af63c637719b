"""Lines end at "\\n" only, and a bad file is named, not survived."""

import gzip
import os
import subprocess
import sys
import threading

import pytest

from keras_transformer.files import write_bytes
from keras_transformer.text.lines import iter_lines, read_lines, split_lines, write_lines

TRICKY = "a\u2028b\r\n\n  c\x85\x0b\x0c d \r\re\r\r\nlast"
TRICKY_LINES = ["a\u2028b", "", "  c\x85\x0b\x0c d \r\re\r", "last"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("\r\n\r", ["", ""]),
        (TRICKY, TRICKY_LINES),
        (TRICKY + "\n", TRICKY_LINES),
    ],
)
def test_split_and_read_agree_on_what_a_line_is(tmp_path, text, lines):
    assert split_lines(text) == lines
    for name, data in {"x": text.encode(), "packed": gzip.compress(text.encode())}.items():
        (tmp_path / name).write_bytes(data)
        assert read_lines(tmp_path / name) == lines


def test_gzip_is_known_by_content_and_may_have_several_members(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress("ü\nc\n".encode()))
    assert read_lines(str(path)) == ["a", "bü", "c"]
    (tmp_path / "plain.gz").write_bytes(b"a\n")
    assert read_lines(tmp_path / "plain.gz") == ["a"]


def test_byte_order_mark_is_dropped_at_the_start_and_only_there(tmp_path):
    path = tmp_path / "x"
    path.write_bytes("\ufeff\ufeffa\n\ufeffb\n".encode())
    assert read_lines(path) == ["\ufeffa", "\ufeffb"]
    path.write_bytes("\ufeff\r\n".encode())
    assert read_lines(path) == [""]
    path.write_bytes("\ufeff".encode())
    assert read_lines(path) == []


def test_a_pipe_can_be_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = gzip.compress(b"a\nb\n")
    writer = threading.Thread(target=lambda: pipe.write_bytes(data))
    writer.start()
    assert read_lines(pipe) == ["a", "b"]
    writer.join()


def test_streaming_yields_good_lines_before_the_bad_one(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"good\nsch\xf6n\n")
    lines = iter_lines(path)
    assert next(lines) == "good"
    with pytest.raises(ValueError, match=r"latin\.txt.*line 2 has byte 0xf6 at its position 3"):
        next(lines)


@pytest.mark.parametrize("cut", [12, -3])
def test_damaged_gzip_is_named(tmp_path, cut):
    path = tmp_path / "broken.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % i for i in range(5000)))[:cut])
    with pytest.raises(ValueError, match=r"broken\.gz.*damaged gzip"):
        read_lines(path)


def test_flipped_bit_in_gzip_is_noticed(tmp_path):
    data = bytearray(gzip.compress(b"".join(b"%d\n" % i for i in range(5000))))
    data[-5] ^= 1  # in the checksum: every line decodes, and yet the file is not the one packed
    (tmp_path / "x.gz").write_bytes(data)
    with pytest.raises(ValueError, match="damaged gzip.*after 5000 good lines"):
        read_lines(tmp_path / "x.gz")


def test_missing_file_and_folder_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no text file.*nowhere"):
        read_lines(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is a folder"):
        read_lines(tmp_path)


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_written_lines_come_back(tmp_path, name):
    path = tmp_path / name
    lines = ["", " a\u2028", "b\x85", "\t", ""]
    write_lines(path, iter(lines))
    assert read_lines(path) == lines
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    first = path.read_bytes()
    write_lines(path, lines)
    assert path.read_bytes() == first


def test_refused_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "out.txt"
    write_lines(path, ["old"])
    with pytest.raises(ValueError, match=r"line 2 of 3.*would become two lines"):
        write_lines(path, ["a", "b\nc", "d"])
    with pytest.raises(ValueError, match="cannot be written"):
        write_bytes(tmp_path / "no" / "such" / "folder", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="cannot be written"):
        write_bytes(tmp_path / "folder", b"")
    assert read_lines(path) == ["old"]
    assert sorted(os.listdir(tmp_path)) == ["folder", "out.txt"]


def test_real_corpora_stay_parallel(real_data):
    for stem in ("libreoffice-help/all", "newstest/newstest2013", "multi30k/val"):
        sides = [real_data / f"{stem}.{language}.gz" for language in ("en", "de", "fr")]
        ends = [gzip.decompress(side.read_bytes()).count(b"\n") for side in sides]
        assert [len(read_lines(side)) for side in sides] == ends
        assert len(set(ends)) == 1


def test_what_standard_output_leads_to_is_added_to_and_not_replaced(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"kept\n")
    code = "from keras_transformer.text.lines import write_lines; "
    code += "write_lines('/dev/stdout', ['new'])"
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert log.read_bytes() == b"kept\nnew\n"
