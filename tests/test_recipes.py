"""Each recipe resolves to what the paper says, and to nothing else."""

import dataclasses
import importlib.util
import pathlib

import pytest

from keras_transformer.config import DecodingConfig, TrainingConfig, TransformerConfig
from keras_transformer.recipes import RECIPES
from keras_transformer.run_directory import RunConfig

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = {"vocab_size": 37_000, "num_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8}
BIG = BASE | {"d_model": 1024, "d_ff": 4096, "num_heads": 16}
PAPER = {
    "paper/ende-base": (BASE | {"dropout": 0.1}, 100_000, 5, 27.3, 3.3e18, "de", "bpe"),
    "paper/ende-big": (BIG | {"dropout": 0.3}, 300_000, 20, 28.4, 2.3e19, "de", "bpe"),
    "paper/enfr-base": (
        BASE | {"vocab_size": 32_000, "dropout": 0.1}, 100_000, 5, 38.1, 3.3e18, "fr", "wordpiece"
    ),
    "paper/enfr-big": (
        BIG | {"vocab_size": 32_000, "dropout": 0.1}, 300_000, 20, 41.8, 2.3e19, "fr", "wordpiece"
    ),
}  # fmt: skip


def train_wmt():
    spec = importlib.util.spec_from_file_location("train_wmt", ROOT / "trainers" / "train_wmt.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def resolved(tmp_path, *arguments):
    file = tmp_path / "settings.json"
    assert train_wmt().main([*arguments, "--dump-config", str(file)]) == 0
    return RunConfig.load(file)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_what_the_paper_says(tmp_path, name):
    model, steps, averaged, bleu, flops, target, vocab_kind = PAPER[name]
    config, recipe = resolved(tmp_path, "--recipe", name), RECIPES[name]
    assert config.model == TransformerConfig(**model, norm="post", tie_embeddings="all")
    expected = TrainingConfig(
        steps=steps, batch_tokens=25_000, warmup_steps=4000, label_smoothing=0.1
    )
    changed = {"average_last": averaged, "checkpoint_steps": config.training.checkpoint_steps}
    assert config.training == dataclasses.replace(expected, **changed)
    assert config.decoding == DecodingConfig(beam_size=4, alpha=0.6, extra_length=50)
    data = config.data
    assert data.dataset == f"wmt14_translate/{target}-en" and data.vocab_kind == vocab_kind
    assert (data.source, data.target, data.shared_vocab) == ("en", target, True)
    assert (recipe.bleu, recipe.flops) == (bleu, flops)


def test_every_recipe_of_the_paper_is_there():
    assert set(RECIPES) == set(PAPER)


def test_settings_can_be_changed_but_the_text_is_the_recipes(tmp_path, capsys):
    config = resolved(
        tmp_path, "--recipe", "paper/ende-base", "--data-dir", "x", "--batch-tokens", "9000"
    )
    assert config.data.data_dir == "x" and config.training.batch_tokens == 9000
    main = train_wmt().main
    assert main(["--recipe", "paper/ende-base", "--train-tsv", "x"]) == 2
    assert "--train-tsv: give its preset, base" in capsys.readouterr().err
    assert main(["--recipe", "paper/ende-base", "--set", "data.dataset=null"]) == 2
    assert "--dataset: give its preset" in capsys.readouterr().err
    assert main(["--recipe", "paper/base"]) == 2
    assert "no recipe 'paper/base'. There are: paper/ende-base" in capsys.readouterr().err
