"""The loop of a search, which sentences leave as they are done."""

from __future__ import annotations

import tensorflow as tf

from keras_transformer.decoding.room import Room


def run(advance, state, context, results, room: Room):
    """Advances a search until every sentence is done.

    Args:
        advance: Maps state and context to the state one token further.
        state: A NamedTuple of tensors: `step`, a scalar; `done`, bool `[batch]` or
            `[batch, count]`; others `[batch, ...]`, of which those with three axes or more may grow
            in the third.
        context: What stays as it is, a nest of tensors `[batch, ...]`.
        results: Maps state and context to what is wanted in the end, a nest of tensors
            `[batch, ...]`.
        room: With room ahead, as XLA wants it, the batch stays as it is too.

    Returns:
        The results of each sentence.
    """
    if room.steps is not None:
        (end,) = tf.while_loop(
            lambda state: ~tf.reduce_all(state.done),
            lambda state: (advance(state, context),),
            (state,),
        )
        return results(end, context)

    def some_are_left(state, context, rows, found):
        return tf.size(rows) > 0

    def until_a_quarter_is_done(state, context, rows, found):
        batch = tf.size(rows)
        (state,) = tf.while_loop(
            lambda state: 4 * tf.math.count_nonzero(_going(state), dtype=tf.int32) > 3 * batch,
            lambda state: (advance(state, context),),
            (state,),
            (_shapes(state, growing=True),),
        )
        going = _going(state)
        left, rest = tf.where(~going)[:, 0], tf.where(going)[:, 0]
        found = tf.nest.map_structure(
            lambda all_, some: _written(all_, tf.gather(rows, left), tf.gather(some, left)),
            found,
            results(state, context),
        )
        state, context, rows = tf.nest.map_structure(
            lambda tensor: tf.gather(tensor, rest) if len(tensor.shape) else tensor,
            (state, context, rows),
        )
        return state, context, rows, found

    rows = tf.range(tf.shape(state.done)[0])
    context = tf.nest.map_structure(tf.convert_to_tensor, context)
    found = tf.nest.map_structure(tf.zeros_like, results(state, context))
    shapes = (
        _shapes(state, growing=True),
        _shapes(context, growing=False),
        _shapes(rows, growing=False),
        _shapes(found, growing=True),
    )
    start = state, context, rows, found
    return tf.while_loop(some_are_left, until_a_quarter_is_done, start, shapes)[-1]


def _going(state):
    """bool `[batch]`: what is not done."""
    return ~tf.reduce_all(tf.reshape(state.done, (tf.shape(state.done)[0], -1)), axis=1)


def _written(whole, rows, parts):
    """`whole` with `parts` as its `rows`; both as long as the longer in the third axis."""
    if len(whole.shape) >= 3:
        longer = tf.shape(parts)[2] - tf.shape(whole)[2]
        whole = tf.pad(whole, [(0, longer if axis == 2 else 0) for axis in range(len(whole.shape))])
    return tf.tensor_scatter_nd_update(whole, rows[:, None], parts)


def _shapes(nest, growing: bool):
    """The shapes of tensors in a loop: of any batch, and of any length where they grow."""

    def shape(tensor):
        known = tensor.shape.as_list()
        for axis in (0, 2) if growing else (0,):
            if axis < len(known):
                known[axis] = None
        return tf.TensorShape(known)

    return tf.nest.map_structure(shape, nest)
