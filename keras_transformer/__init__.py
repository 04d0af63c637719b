"""The whole system of "Attention Is All You Need" (Vaswani et al. 2017) in Keras 3.

Only the names below are public. Importing them registers the layers with Keras, so that
`keras.saving.load_model` knows them.
"""

from keras_transformer.config import (
    DataConfig,
    DecodingConfig,
    TrainingConfig,
    TransformerConfig,
)
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.corpus import (
    ParallelText,
    read_parallel_files,
    read_tsv,
    stream_parallel_files,
)
from keras_transformer.data.demo import make_demo_corpus
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.prepare import prepare
from keras_transformer.data.prepared import PreparedPairs
from keras_transformer.data.tfds import load_tfds, stream_tfds
from keras_transformer.decoding.scoring import AttentionWeights, attention_weights, score_pairs
from keras_transformer.decoding.translator import Translation, Translator
from keras_transformer.evaluation.bleu import corpus_bleu
from keras_transformer.export import export_saved_model, load
from keras_transformer.job import Job
from keras_transformer.model import build_transformer
from keras_transformer.run_directory import RunConfig, load_run
from keras_transformer.text.tokenizer import load_tokenizer
from keras_transformer.text.vocabulary import Vocabularies, learn_tokenizer
from keras_transformer.training.loss import SmoothedCrossEntropy
from keras_transformer.training.metrics import Perplexity, TokenAccuracy
from keras_transformer.training.optimizer import FusedAdam, paper_optimizer
from keras_transformer.training.schedule import TransformerSchedule

__version__ = "0.1.0"

__all__ = [
    "AttentionWeights",
    "DataConfig",
    "DecodingConfig",
    "FusedAdam",
    "Job",
    "ParallelText",
    "Perplexity",
    "PreparedPairs",
    "RunConfig",
    "SmoothedCrossEntropy",
    "TokenAccuracy",
    "TokenBatches",
    "TrainingConfig",
    "TransformerConfig",
    "TransformerSchedule",
    "Translation",
    "Translator",
    "Vocabularies",
    "__version__",
    "attention_weights",
    "build_transformer",
    "corpus_bleu",
    "encode_pairs",
    "export_saved_model",
    "learn_tokenizer",
    "load",
    "load_run",
    "load_tfds",
    "load_tokenizer",
    "make_demo_corpus",
    "paper_optimizer",
    "prepare",
    "read_parallel_files",
    "read_tsv",
    "score_pairs",
    "stream_parallel_files",
    "stream_tfds",
]
