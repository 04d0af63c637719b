"""Weights laid out for a step."""

import tensorflow as tf

from keras_transformer.decoding.step_weights import Norm, Packed


def test_a_packed_nest_comes_out_as_it_was_put_in():
    def vector(size, value):
        return tf.fill([size], float(value))

    nest = (
        [Norm(vector(3, 1), vector(3, 2), 1e-6), {"kernel": tf.ones((3, 3)), "b": vector(5, 3)}],
        None,
        tf.constant([4, 5, 6]),  # of another dtype
    )
    packed = Packed(nest)
    unpacked = packed.unpacked()
    tf.nest.assert_same_structure(unpacked, nest)
    for one, other in zip(tf.nest.flatten(unpacked), tf.nest.flatten(nest), strict=True):
        if tf.is_tensor(other):
            assert one.dtype == other.dtype
            tf.debugging.assert_equal(one, other)
        else:
            assert one == other
