"""Shared fixtures: where the real corpora are, and warnings of our own as errors."""

import os
import pathlib

import pytest

_ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_data() -> pathlib.Path:
    """Folder of the real corpora; skips in a stranger's clone, fails in CI.

    Found through the environment variable KERAS_TRANSFORMER_DATA, by default `../shared/data`.
    """
    folder = pathlib.Path(
        os.environ.get("KERAS_TRANSFORMER_DATA", _ROOT.parent / "shared" / "data")
    )
    if not (folder / "multi30k" / "train.en.gz").exists():
        message = (
            f"the real corpora are not in {folder}; set KERAS_TRANSFORMER_DATA to the folder "
            "that holds multi30k/, tatoeba/ and newstest/ to run this test"
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder
