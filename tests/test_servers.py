"""What can be had of a server without one: its loader without Python, its requests, its messages.

`tests/serve.cc` stands on the same loader as TensorFlow Serving.
"""

import pathlib
import shutil
import subprocess
import sysconfig

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_transformer.config import TransformerConfig
from keras_transformer.export import export_saved_model, load
from keras_transformer.model import build_transformer
from keras_transformer.text.vocabulary import Vocabularies

SITE = pathlib.Path(sysconfig.get_paths()["purelib"])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The program, and the libraries of text ops that it loads."""
    if shutil.which("g++") is None:
        pytest.skip("There is no g++ to build the loader with.")
    tensorflow, program = SITE / "tensorflow", tmp_path_factory.mktemp("serve") / "serve"
    command = ["g++", "-std=c++17", "-O1", "-D_GLIBCXX_USE_CXX11_ABI=1"]
    command += ["-DEIGEN_MAX_ALIGN_BYTES=64", f"-I{tensorflow / 'include'}"]
    command += [str(pathlib.Path(__file__).parent / "serve.cc"), "-o", str(program)]
    command += [f"-L{tensorflow}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    command += [f"-Wl,-rpath,{tensorflow}"]
    subprocess.run(command, check=True)
    libraries = sorted((SITE / "tensorflow_text" / "python" / "ops").glob("_*.so"))
    return program, libraries


def run(server, path, ids, pairs):
    """Every output of every signature, as strings: {(signature, output): values}."""
    program, libraries = server
    rows = ";".join(",".join(map(str, row)) for row in ids)
    result = subprocess.run(
        [program, path, rows, *libraries],
        input="".join(f"{source}\t{target}\n" for source, target in pairs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    lines = [line.split("\t") for line in result.stdout.split("\n")[:-1]]
    return {(line[0], line[1]): line[2:] for line in lines}


@pytest.mark.slow
def test_the_loader_of_a_server_runs_every_signature_without_python(server, world):
    path, sources = world.path, world.lines[:95]
    pairs = list(zip(sources, sources[::-1], strict=True))
    ids = [[5, 40, 7, 3], [9, 3], [11, 12, 13, 14, 15, 3]]
    found = run(server, path, ids, pairs)
    translator = load(path)
    expected = translator.translations(sources, n_best=translator.config.beam_size)
    first = [one[0] for one in expected]
    assert found["serving_default", "translation"] == [one.text for one in first]
    scores = np.array(found["serving_default", "score"], np.float32)
    np.testing.assert_allclose(scores, [one.score for one in first], rtol=1e-4, atol=1e-4)
    texts = [one.text for several in expected for one in several]
    assert found["nbest", "translation"] == texts
    log_p = np.array(found["score_pairs", "log_probability"], np.float32)
    np.testing.assert_allclose(log_p, translator.score(*zip(*pairs, strict=True)), rtol=1e-4)
    python = tf.saved_model.load(str(path)).signatures["ids"]
    for i, row in enumerate(ids):
        alone = python(source_ids=tf.constant([row]), source_lengths=tf.constant([len(row)]))
        assert found["ids", "lengths"][i] == str(int(alone["lengths"][0]))
        np.testing.assert_allclose(
            float(found["ids", "score"][i]), alone["score"][0], rtol=1e-4, atol=1e-5
        )


def test_warm_up_requests_are_what_a_server_replays(world):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    path = world.path
    file = path / "assets.extra" / "tf_serving_warmup_requests"
    signatures = tf.saved_model.load(str(path)).signatures
    seen = set()
    for record in tf.data.TFRecordDataset(str(file)):
        request = logs.PredictionLog.FromString(record.numpy()).predict_log.request
        name = request.model_spec.signature_name
        inputs = {key: tf.make_ndarray(proto) for key, proto in request.inputs.items()}
        outputs = signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        sizes = {len(value) for value in (*inputs.values(), *outputs.values())}
        assert len(sizes) == 1
        seen.add((name, *sizes))
    assert seen == {(name, size) for name in signatures for size in (1, 8)}


def test_a_grpc_client_gets_the_translations(world):
    """The messages and stubs are those of TensorFlow Serving; the server here is a stand-in."""
    grpc = pytest.importorskip("grpc")
    predict = pytest.importorskip("tensorflow_serving.apis.predict_pb2")
    service = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")
    from concurrent import futures

    path, lines = world.path, world.lines
    signatures = tf.saved_model.load(str(path)).signatures

    class Service(service.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802
            function = signatures[request.model_spec.signature_name or "serving_default"]
            inputs = {k: tf.constant(tf.make_ndarray(v)) for k, v in request.inputs.items()}
            response = predict.PredictResponse()
            for name, value in function(**inputs).items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(2))
    service.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            request = predict.PredictRequest()
            request.model_spec.name = "demo"
            request.inputs["source"].CopyFrom(tf.make_tensor_proto(lines[:5]))
            response = service.PredictionServiceStub(channel).Predict(request, timeout=60)
    finally:
        server.stop(None)
    texts = [text.decode() for text in tf.make_ndarray(response.outputs["translation"])]
    assert texts == load(path)(lines[:5])


# Those of tensorflow-text that the stock server links, of the ones we use.
TEXT_OPS = {
    *("SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp", "NormalizeUTF8"),
    *("FastWordpieceTokenizeWithOffsets", "TFText>FastWordpieceTokenizeWithOffsets"),
    "TFText>FastWordpieceDetokenize",
}


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_an_export_holds_no_op_that_the_stock_server_lacks(world, tmp_path, kind):
    path = world.path
    if kind == "wordpiece":
        path = tmp_path / "1"
        vocabularies = Vocabularies.learn(world.lines, world.lines, kind, vocab_size=400)
        config = TransformerConfig(
            vocab_size=vocabularies.source.vocab_size, num_layers=1, d_model=8, num_heads=2
        )
        export_saved_model(build_transformer(config), vocabularies, world.config, path)
    saved = SavedModel.FromString((path / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    functions = {function.signature.name for function in graph.library.function}
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    foreign = {
        node.op for node in nodes if node.op not in functions and not hasattr(tf.raw_ops, node.op)
    }
    assert foreign and foreign <= TEXT_OPS
    assert not any("_XlaMustCompile" in node.attr for node in nodes)
    names = {
        attribute for f in graph.library.function for attribute in f.attr if f.attr[attribute].b
    }
    assert "_XlaMustCompile" not in names
