"""Every test here starts from the same random seed, and dtype policies are given by name."""

import keras
import pytest


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(11)


@pytest.fixture(params=["float32", "mixed_bfloat16", "mixed_float16"])
def policy(request):
    return request.param
