"""Warm-up requests, which TF Serving replays before it answers the first client's.

A first call of a signature is slow. The file `assets.extra/tf_serving_warmup_requests` is a
TFRecord of `PredictionLog` messages (tensorflow_serving/apis/prediction_log.proto). They are
written field by field, so that an export does not need the package tensorflow-serving-api.
"""

from __future__ import annotations

import pathlib

import tensorflow as tf


def write_warmup_requests(folder: pathlib.Path, requests: list[tuple[str, dict]]) -> None:
    """Writes the file into an export.

    Args:
        folder: Of the SavedModel.
        requests: Each a signature's name and its inputs by name.

    Example:
        >>> write_warmup_requests(folder, [("serving_default", {"source": ["Hello."]})])
    """
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            writer.write(_prediction_log(signature, inputs))


def _prediction_log(signature: str, inputs: dict) -> bytes:
    model_spec = _field(3, signature.encode())  # ModelSpec.signature_name
    request = _field(1, model_spec)  # PredictRequest.model_spec
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))  # .inputs, a map
    return _field(6, _field(1, request))  # PredictionLog.predict_log, PredictLog.request


def _field(number: int, content: bytes) -> bytes:
    """A protocol buffer's field that is a string or a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    start = bytearray()
    while value > 127:
        start.append(value & 127 | 128)
        value >>= 7
    return bytes(start) + bytes([value])
