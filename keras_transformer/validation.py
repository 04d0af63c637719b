"""How good a model in training is, on text that it is not trained on."""

from __future__ import annotations

import numpy as np

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.corpus import ParallelText
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.decoding.translator import Translator
from keras_transformer.evaluation.bleu import corpus_bleu
from keras_transformer.run_directory import RunConfig
from keras_transformer.text.vocabulary import Vocabularies
from keras_transformer.training.trainer import Trainer

_SAMPLES = 3  # translations recorded


class Validation:
    """Loss, perplexity and BLEU (greedy, for speed) on the validation text, for `Trainer`.

    Args:
        text: The validation text; as much as `evaluate_sentences` says is used.
        vocabularies: The model's.
        config: All settings.
        say: Called with a line of news after each evaluation.
    """

    def __init__(self, text: ParallelText, vocabularies: Vocabularies, config: RunConfig, say):
        self.text = text.head(config.training.evaluate_sentences)
        model = config.model
        limit = model.max_positions if model.positions == "learned" else 1_000_000
        pairs = encode_pairs(self.text, vocabularies, limit)
        longest = int(max(pairs.source_lengths.max(), pairs.target_lengths.max()))
        self.batches = TokenBatches(pairs, max(4096, longest), num_buckets=8, seed=0)
        self.vocabularies, self.decoding, self.say = vocabularies, config.decoding, say
        self._translator = None

    def __call__(self, trainer: Trainer) -> dict:
        loss = nll = tokens = 0.0
        for _, arrays in self.batches.part(0):
            result = trainer.step.evaluate(*arrays)
            loss, nll, tokens = loss + result.loss, nll + result.nll, tokens + result.tokens
        figures = {"loss": loss / tokens, "perplexity": float(np.exp(nll / tokens))}
        if not trainer.workers.is_chief:  # it alone records, and marks the best
            return figures
        if self._translator is None:
            self._translator = Translator.from_model(
                trainer.model, self.vocabularies, self.decoding
            )
        translations = self._translator(self.text.source, beam_size=1)
        bleu = corpus_bleu(translations, self.text.target).score
        figures |= {"bleu": bleu, "samples": "\n".join(translations[:_SAMPLES])}
        self.say(
            f"Update {trainer.progress.step}, {trainer.progress.seconds / 60:.1f} min: validation "
            f"perplexity {figures['perplexity']:.2f}, BLEU {bleu:.2f} (greedy)."
        )
        return figures
