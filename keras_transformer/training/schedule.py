"""The learning rate (paper section 5.3)."""

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
        steps: Updates in all; needed for a cooldown only.
        cooldown_steps: Updates at the end over which the rate falls linearly towards zero besides;
            the paper has none. It gets more out of a training that is short.

    Example:
        >>> float(TransformerSchedule(512)(3999))  # the peak, at update 4000
        0.000698...
    """

    def __init__(self, d_model, warmup_steps=4000, factor=1.0, steps=None, cooldown_steps=0):
        for name, value in {"d_model": d_model, "warmup_steps": warmup_steps}.items():
            if value < 1:
                raise ValueError(f"`{name}` should be at least 1. Received: {name}={value}.")
        if cooldown_steps and (steps is None or not 0 < cooldown_steps <= steps):
            raise ValueError(
                "`cooldown_steps` should be from 0 to `steps`, the updates in all. Received: "
                f"cooldown_steps={cooldown_steps}, steps={steps}."
            )
        self.d_model, self.warmup_steps, self.factor = d_model, warmup_steps, factor
        self.steps, self.cooldown_steps = steps, cooldown_steps

    def __call__(self, step):
        """The rate, a float32 scalar, of update number `step` counted from 0 (int or float)."""
        step = ops.cast(step, "float32") + 1.0
        rate = ops.minimum(ops.rsqrt(step), step * self.warmup_steps**-1.5)
        if self.cooldown_steps:
            left = (self.steps + 1.0 - step) / self.cooldown_steps
            rate *= ops.clip(left, 0.0, 1.0)
        return self.factor * self.d_model**-0.5 * rate

    def get_config(self):
        names = ("d_model", "warmup_steps", "factor", "steps", "cooldown_steps")
        return {name: getattr(self, name) for name in names}
