"""A file or folder is written whole or not at all."""

import pytest

from keras_transformer.files import locked, new_folder, write_bytes


def test_written_file_has_ordinary_permissions(tmp_path):
    write_bytes(tmp_path / "ours", b"")
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_two_processes_that_make_one_folder_do_not_mix_their_files(tmp_path):
    with (
        pytest.raises(ValueError, match="made by another process meanwhile"),
        new_folder(tmp_path / "1") as slow,
    ):
        (slow / "a").write_text("a")
        with new_folder(tmp_path / "1") as quick:
            (quick / "b").write_text("b")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert [path.name for path in (tmp_path / "1").iterdir()] == ["b"]


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "file").touch()
    unfit = pytest.raises(ValueError, match="file/x cannot be written to: Not a directory")
    with unfit, locked(tmp_path / "file" / "x"):
        pass
    busy = pytest.raises(ValueError, match="Another process is at work")
    with locked(tmp_path / "new"), busy, locked(tmp_path / "new"):
        pass
