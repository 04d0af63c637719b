"""The learning rate and the optimiser (paper section 5.3)."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (equation 3).

    The paper counts updates from 1 and Keras from 0: the first update is step 1 here.

    Args:
        d_model: The model's width.
        warmup_steps: Updates over which the rate rises.
        factor: 1.0 in the paper.

    Example:
        >>> float(TransformerSchedule(512)(3999))  # the peak, at update 4000
        0.000698...
    """

    def __init__(self, d_model, warmup_steps=4000, factor=1.0):
        for name, value in {"d_model": d_model, "warmup_steps": warmup_steps}.items():
            if value < 1:
                raise ValueError(f"`{name}` should be at least 1. Received: {name}={value}.")
        self.d_model, self.warmup_steps, self.factor = d_model, warmup_steps, factor

    def __call__(self, step):
        """The rate, a float32 scalar, of update number `step` counted from 0 (int or float)."""
        step = ops.cast(step, "float32") + 1.0
        rate = ops.minimum(ops.rsqrt(step), step * self.warmup_steps**-1.5)
        return self.factor * self.d_model**-0.5 * rate

    def get_config(self):
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "factor": self.factor,
        }


def paper_optimizer(d_model, warmup_steps=4000, factor=1.0, **adam):
    """Adam(0.9, 0.98, 1e-9) with the warm-up schedule.

    Args:
        d_model, warmup_steps, factor: See `TransformerSchedule`.
        **adam: Arguments of `keras.optimizers.Adam` to set otherwise.

    Example:
        >>> optimizer = paper_optimizer(512)
    """
    settings = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9, **adam}
    return keras.optimizers.Adam(TransformerSchedule(d_model, warmup_steps, factor), **settings)
