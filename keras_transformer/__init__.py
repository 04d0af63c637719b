"""The whole system of "Attention Is All You Need" (Vaswani et al. 2017) in Keras 3.

Only the names below are public. They are imported when first used, so that a command's `--help`
does not wait for TensorFlow.
"""

import importlib

__version__ = "0.1.0"

_PUBLIC = {
    "DataConfig": "config",
    "DecodingConfig": "config",
    "TrainingConfig": "config",
    "TransformerConfig": "config",
    "build_transformer": "model",
    "make_demo_corpus": "data.demo",
    "ParallelText": "data.corpus",
    "read_parallel_files": "data.corpus",
    "read_tsv": "data.corpus",
    "load_tfds": "data.tfds",
    "encode_pairs": "data.encoding",
    "TokenBatches": "data.batching",
    "Vocabularies": "text.vocabulary",
    "learn_tokenizer": "text.vocabulary",
    "load_tokenizer": "text.tokenizer",
    "TransformerSchedule": "training.schedule",
    "paper_optimizer": "training.schedule",
    "SmoothedCrossEntropy": "training.loss",
    "TokenAccuracy": "training.metrics",
    "Perplexity": "training.metrics",
    "Translator": "decoding.translator",
    "Translation": "decoding.translator",
    "corpus_bleu": "evaluation.bleu",
    "export_saved_model": "export",
    "load": "export",
    "load_run": "run_directory",
    "RunConfig": "run_directory",
    "Job": "job",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)
