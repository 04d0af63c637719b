"""Masks say who may attend to whom: True = attend, spelled out place by place here."""

import keras
import numpy as np
import pytest

from keras_transformer.layers.masks import AttentionMasks, causal_mask, padding_mask, window_mask

SOURCE = np.array([[5, 6, 7, 3, 0], [8, 3, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[2, 9, 4], [2, 0, 0], [0, 0, 0]], np.int32)


def test_padding_is_hidden_and_every_other_id_is_seen():
    found = padding_mask(np.array([[1, 2, 3, 4, 0]], np.int32))
    np.testing.assert_array_equal(found, [[[[True, True, True, True, False]]]])


def test_causal_mask_shows_a_position_itself_and_the_past():
    np.testing.assert_array_equal(causal_mask(3)[0, 0], [[1, 0, 0], [1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(("window", "reach"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (99, 98)])
def test_window_mask_shows_half_a_window_either_way(window, reach):
    mask = window_mask(7, window)[0, 0].numpy()
    for i, j in np.ndindex(7, 7):
        assert mask[i, j] == (abs(i - j) <= reach)


@pytest.mark.parametrize(("window", "reach"), [(None, 99), (3, 1)])
def test_the_three_masks_of_a_transformer(window, reach):
    source, target, memory = (
        np.broadcast_to(mask, shape)
        for mask, shape in zip(
            AttentionMasks(window)(SOURCE, TARGET),
            [(3, 1, 5, 5), (3, 1, 3, 3), (3, 1, 3, 5)],
            strict=True,
        )
    )
    for b, i, j in np.ndindex(3, 5, 5):
        assert source[b, 0, i, j] == (SOURCE[b, j] != 0 and abs(i - j) <= reach)
    for b, i, j in np.ndindex(3, 3, 3):
        assert target[b, 0, i, j] == (TARGET[b, j] != 0 and j <= i and i - j <= reach)
    for b, i, j in np.ndindex(3, 3, 5):  # the window is for self-attention alone
        assert memory[b, 0, i, j] == (SOURCE[b, j] != 0)


@pytest.mark.parametrize("window", [None, 3])
def test_symbolic_shapes_are_those_of_the_masks(window):
    ids = keras.Input((5,), dtype="int32"), keras.Input((3,), dtype="int32")
    symbolic = AttentionMasks(window)(*ids)
    eager = AttentionMasks(window)(SOURCE, TARGET)
    assert [(3, *spec.shape[1:]) for spec in symbolic] == [tuple(mask.shape) for mask in eager]
    assert {str(spec.dtype) for spec in symbolic} == {"bool"}
