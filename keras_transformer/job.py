"""The main job, end to end: text, vocabulary, training, averaging, export, score.

Everything it makes is in the run's folder; started again with the same settings it goes on where
it stopped.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable

from keras_transformer.data.corpus import ParallelText
from keras_transformer.data.texts import Texts, load_texts
from keras_transformer.decoding.translator import Translator
from keras_transformer.evaluation.bleu import corpus_bleu
from keras_transformer.evaluation.measures import make_measure
from keras_transformer.evaluation.multi_bleu import moses_languages
from keras_transformer.export import export_saved_model, load, next_version
from keras_transformer.files import locked
from keras_transformer.model import build_transformer
from keras_transformer.run_directory import RunConfig, load_run, run_checkpoints, write_json
from keras_transformer.text.vocabulary import Vocabularies
from keras_transformer.training.cost import batch_flops, training_memory
from keras_transformer.training.step import device_rows
from keras_transformer.training.strategy import make_strategy
from keras_transformer.training.trainer import Progress, Trainer
from keras_transformer.training.workers import Workers
from keras_transformer.training_text import (
    complete,
    describe,
    find_vocabularies,
    make_batches,
    prepared_folder,
)
from keras_transformer.validation import Validation

_SAMPLES = 10  # translations shown at the end


class Job:
    """A training run from text to a scored SavedModel.

    Args:
        config: All settings. The model's vocabulary sizes are those to learn; what the vocabulary
            came to replaces them.
        run_dir: The run's folder.
        export_to: The folder below which the next version is exported; None for no export.
        strategy: As for `make_strategy`.
        say: Called with each line of news.
        on_step: Called after each update; see `Trainer`.

    Example:
        >>> Job(config, "runs/demo", "saved_models/demo").run()
    """

    def __init__(
        self,
        config: RunConfig,
        run_dir: str | os.PathLike,
        export_to: str | os.PathLike | None = None,
        strategy: str = "auto",
        say: Callable[[str], None] = lambda line: None,
        on_step: Callable[[Progress, float, float], None] | None = None,
    ):
        self.config, self.run_dir = config, pathlib.Path(run_dir)
        self.export_to = None if export_to is None else pathlib.Path(export_to)
        self.strategy = make_strategy(strategy)
        self.workers = Workers(self.strategy)
        # Of several processes the chief alone speaks, as it alone writes.
        self.say = say if self.workers.is_chief else lambda line: None
        self.on_step = on_step if self.workers.is_chief else None

    def run(self) -> dict:
        """Does the whole job.

        Returns:
            The report, as in `report.json`; of several processes, the chief's only, else {}.

        Raises:
            ValueError: Something given is unfit; nothing half-written is left.
            Interrupted: On Ctrl-C while training, once the state is saved.
        """
        start = time.perf_counter()
        self._check_settings()
        texts = load_texts(self.config.data)
        if not self.workers.is_chief:
            self._train(*self._prepare(texts), texts)
            return {}
        with self._folders(), locked(self.run_dir):
            report = self._run(texts)
        report["total_minutes"] = (time.perf_counter() - start) / 60
        write_json(self.run_dir / "report.json", report)
        return report

    def dry_run(self) -> dict:
        """What `run` would train, and what it would cost, without writing a thing.

        Returns:
            The settings, and the figures by name.

        Raises:
            ValueError: Something given is unfit.
        """
        self._check_settings()
        if self.workers.count > 1:
            raise ValueError("A dry run needs one process only. Leave TF_CONFIG out.")
        texts = load_texts(self.config.data)
        with tempfile.TemporaryDirectory() as folder:
            vocabularies = find_vocabularies(self.config, self.run_dir / "vocab", texts, self.say)
            config = complete(self.config, vocabularies)
            folder = pathlib.Path(folder) / "prepared"
            batches = make_batches(config, texts, vocabularies, folder, self.say)
        describe(config, batches, self.say)
        shapes, replicas = batches.shapes, self.strategy.num_replicas_in_sync
        parameters = build_transformer(config.model).count_params()
        shape = max(shapes, key=lambda bucket: bucket.positions)
        limit = config.training.device_tokens
        length = max(shape.source_length, shape.target_length)
        memory = training_memory(
            config.model,
            parameters,
            min(device_rows(shape.rows, length, replicas, limit)),
            shape.source_length,
            shape.target_length,
            accumulates=limit is not None,
        )
        flops = sum(batch_flops(config.model, bucket) * count for bucket, count in shapes.items())
        updates = shapes.total()
        return {
            "config": config.to_dict(),
            "devices": replicas,
            "parameters": parameters,
            "batches_per_epoch": updates,
            "epochs": config.training.steps / updates,
            "training_flops": flops / updates * config.training.steps,
            "expected_mib_per_device": round(memory / 2**20),
        }

    def _prepare(self, texts: Texts):
        """The vocabularies, the settings that they complete, and the batches."""
        folder = self.run_dir / "vocab"
        if self.workers.is_chief:
            vocabularies = find_vocabularies(self.config, folder, texts, self.say)
        else:
            vocabularies = Vocabularies.load(self.workers.folder_from_chief(folder))
        config = complete(self.config, vocabularies)
        prepared = prepared_folder(self.run_dir)
        batches = make_batches(config, texts, vocabularies, prepared, self.say)
        if self.workers.is_chief:
            if not (folder / "vocab.json").exists():
                vocabularies.save(folder)  # a text that was refused leaves none behind
            self.workers.folder_from_chief(folder)
        digest = batches.pairs.fingerprint.encode()
        if self.workers.any(self.workers.from_chief(digest) != digest):  # all of them then stop
            raise ValueError(
                "The processes do not train on the same text. Give all of them the same files, or "
                "copies of one prepared folder."
            )
        describe(config, batches, self.say)
        return vocabularies, config, batches

    def _run(self, texts: Texts) -> dict:
        vocabularies, config, batches = self._prepare(texts)
        trainer = self._train(vocabularies, config, batches, texts)
        progress = trainer.progress
        report = {
            "config": config.to_dict(),
            "updates": progress.step,
            "epochs": batches.epochs(progress.part, progress.batch),
            "training_minutes": progress.seconds / 60,
            "target_tokens": int(progress.tokens),
            "target_tokens_per_second": progress.tokens / max(progress.seconds, 1e-9),
            "padding": batches.padding(),
            "best_valid_bleu": progress.best_bleu,
            "parameters": trainer.model.count_params(),
            "training_flops": progress.flops,
        }
        if batches.pairs.left_out:
            report["left_out"] = batches.pairs.left_out
        return report | self._export_and_score(texts.test)

    def _check_settings(self) -> None:
        if self.config.data.shared_vocab != (self.config.model.tie_embeddings == "all"):
            raise ValueError(
                "model.tie_embeddings='all' goes with data.shared_vocab=true, and the others with "
                f"false. Received: tie_embeddings={self.config.model.tie_embeddings!r}, "
                f"shared_vocab={self.config.data.shared_vocab}."
            )
        if self.config.data.stream and self.workers.count > 1:
            raise ValueError(
                "With several processes a text is prepared before: run keras-transformer prepare, "
                "and give every process the folder, or a copy, as data.prepared. Received: "
                "data.stream=true."
            )
        model, decoding = self.config.model, self.config.decoding
        longest = max(
            self.config.training.max_length, decoding.max_source_length + decoding.extra_length
        )
        if model.positions == "learned" and model.max_positions < longest:
            raise ValueError(
                f"model.max_positions should be at least {longest} for learned positions: "
                "training.max_length, and decoding.max_source_length with extra_length, allow so "
                f"many tokens. Received: max_positions={model.max_positions}. Raise it, or lower "
                "those."
            )

    @contextlib.contextmanager
    def _folders(self):
        """Makes the folders; where what is given turns out unfit, it leaves no empty ones."""
        made = []
        for folder in filter(None, (self.run_dir, self.export_to)):
            made += [path for path in (folder, *folder.parents) if not path.exists()]
            try:
                folder.mkdir(parents=True, exist_ok=True)
                probe = folder / ".probe"
                probe.write_text("")
                probe.unlink()
            except OSError as error:
                _remove_empty(made)
                raise ValueError(
                    f"{folder} cannot be written to ({error.strerror}). Give another folder."
                ) from error
        try:
            yield
        except ValueError:
            _remove_empty(made)
            raise

    def _train(self, vocabularies, config, batches, texts: Texts) -> Trainer:
        valid = None
        if texts.valid is not None:
            valid = Validation(texts.valid, vocabularies, config, self.say)
        trainer = Trainer(
            lambda: build_transformer(config.model, config.training.dtype_policy),
            config.training,
            config.model.d_model,
            batches,
            self.strategy,
            self.run_dir,
            identity={
                "model": config.model.to_dict(),
                "vocabulary": vocabularies.fingerprint,
                "training text": batches.pairs.fingerprint,
                "batches": batches.settings,
            },
            evaluate=valid,
            on_step=self.on_step,
            batch_flops=lambda bucket: batch_flops(config.model, bucket),
        )
        if trainer.resume():
            done = trainer.progress.step
            self.say(
                f"Going on from update {done} in {self.run_dir}."
                if done < config.training.steps
                else f"{self.run_dir} was trained for all {done} updates already; exporting it."
            )
            if self.workers.is_chief:
                self._say_what_changed(config)
        # Only now: what does not fit the checkpoints must not replace what they were made with.
        if self.workers.is_chief:
            write_json(self.run_dir / "config.json", config.to_dict())
        self.say(
            f"Training a model of {trainer.model.count_params():,} parameters on "
            f"{self.strategy.num_replicas_in_sync} device(s) ..."
        )
        trainer.train()
        return trainer

    def _say_what_changed(self, config: RunConfig) -> None:
        before = RunConfig.load(self.run_dir).training.to_dict()
        for name, value in config.training.to_dict().items():
            if before[name] != value:
                self.say(f"From here on training.{name} is {value} (it was {before[name]}).")

    def _export_and_score(self, test: ParallelText | None) -> dict:
        report: dict = {}
        steps = run_checkpoints(self.run_dir, self.config).last(self.config.training.average_last)
        self.say(f"Averaging the checkpoints of the updates {', '.join(map(str, steps))}.")
        report["averaged_updates"] = steps
        model, vocabularies, decoding = load_run(self.run_dir, "average")
        if self.export_to is not None:
            path = next_version(self.export_to)
            export_saved_model(model, vocabularies, decoding, path)
            self.say(f"Exported to {path}.")
            report["export"] = str(path)
            translator = load(path)
        else:
            translator = Translator.from_model(model, vocabularies, decoding)
        if test is not None:
            self.say(f"Translating the {len(test)} sentences of {test.name} ...")
            start = time.perf_counter()
            translations = translator(test.source)
            bleu = corpus_bleu(translations, test.target)
            paper = {}
            language = self.config.data.target
            if self.config.data.dataset is not None and language in moses_languages():
                measure = make_measure("paper", language)
                paper["paper_bleu"] = measure(translations, test.target).score
            report["test"] = {
                "text": test.name,
                "sentences": len(test),
                "bleu": bleu.score,
                "details": bleu.text,
                "signature": bleu.signature,
                **paper,
                "seconds": time.perf_counter() - start,
                "samples": [
                    {"source": s, "reference": r, "translation": t}
                    for s, r, t in zip(test.source, test.target, translations, strict=True)
                ][:_SAMPLES],
            }
        return report


def _remove_empty(folders: list[pathlib.Path]) -> None:
    """Removes those folders that hold nothing, or only the lock."""
    for folder in folders:
        if folder.is_dir() and all(path.name == ".lock" for path in folder.iterdir()):
            shutil.rmtree(folder)
