"""OpenNMT-tf's own data pipeline and model, for `pipeline_speed.py`; runs where it is installed.

    python benchmarks/opennmt_tf_pipeline.py PIECES [graph|xla] UPDATES BATCH_TOKENS

PIECES is the folder that `pipeline_speed.py --pieces-to` wrote.
"""

import json
import os
import resource
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import opennmt  # noqa: E402
import tensorflow as tf  # noqa: E402

pieces, *mode, updates, batch_tokens = sys.argv[1:]
updates, batch_tokens, mode = int(updates), int(batch_tokens), (mode or ["graph"])[0]
model = opennmt.models.Transformer(
    opennmt.inputters.WordEmbedder(embedding_size=128),
    opennmt.inputters.WordEmbedder(embedding_size=128),
    num_layers=4,
    num_units=128,
    num_heads=4,
    ffn_inner_dim=256,
    dropout=0.1,
    attention_dropout=0.0,
    ffn_dropout=0.0,
    share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    pre_norm=True,
)
vocabulary = f"{pieces}/vocab.txt"
data = {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary}
model.initialize(data, params={"label_smoothing": 0.1})
dataset = model.examples_inputter.make_training_dataset(
    f"{pieces}/source.txt",
    f"{pieces}/target.txt",
    batch_size=batch_tokens,
    batch_type="tokens",
    shuffle_buffer_size=-1,
    length_bucket_width=1,
    maximum_features_length=64,
    maximum_labels_length=64,
    prefetch_buffer_size=8,
)
model.create_variables()
optimizer = tf.keras.optimizers.legacy.Adam(1e-4, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


@tf.function(jit_compile=mode == "xla")
def gradients_of(source, target):
    with tf.GradientTape() as tape:
        outputs, _ = model(source, target, training=True, step=tf.constant(1, tf.int64))
        loss, normaliser, _ = model.compute_loss(outputs, target, training=True)
        loss = loss / normaliser
    gradients = tape.gradient(loss, model.trainable_variables)
    return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


@tf.function(input_signature=dataset.element_spec if mode == "graph" else None)
def step(source, target):
    loss, gradients = gradients_of(source, target)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


tokens = real = padded = 0.0
for number, (source, target) in enumerate(dataset):
    if number == updates:
        tokens = real = padded = 0.0
        start = time.perf_counter()
    if number == 2 * updates:
        break
    step(source, target).numpy()
    tokens += float(tf.reduce_sum(target["length"]))
    for side in (source, target):
        real += float(tf.reduce_sum(side["length"]))
        padded += float(tf.size(side["ids"]))
seconds = time.perf_counter() - start
result = {
    "peer": "OpenNMT-tf",
    "mode": mode,
    "real_tgt_tok_s": round(tokens / seconds),
    "updates_s": round(updates / seconds, 2),
    "padding": round(1 - real / padded, 4),
    "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
}
print("RESULT " + json.dumps(result))
