"""The named settings, each with its source and every difference from it."""

from __future__ import annotations

import dataclasses

from keras_transformer.config import DecodingConfig, TrainingConfig, TransformerConfig


@dataclasses.dataclass(frozen=True)
class Preset:
    """A model with the recipe to train and use it.

    Attributes:
        provenance: Where the settings come from, and what differs from there.
        model, training, decoding: The settings.
    """

    provenance: str
    model: TransformerConfig
    training: TrainingConfig
    decoding: DecodingConfig = DecodingConfig()


_BASE = TransformerConfig()
_TINY = TransformerConfig(
    vocab_size=8000, num_layers=4, d_model=128, d_ff=256, num_heads=4, norm="pre"
)

PRESETS = {
    "base": Preset(
        "The paper's base model (Table 3, first row; sections 5 and 6.1), WMT 2014 en-de, no "
        "difference known. Checkpoints count updates (1,500 take about the paper's 10 minutes at "
        "its 0.4 s an update).",
        _BASE,
        TrainingConfig(),
    ),
    "big": Preset(
        "The paper's big model (Table 3, last row; section 6.1), en-de: dropout 0.3, 300,000 "
        "updates, the last 20 checkpoints averaged. Checkpoints every 600 updates (about the "
        "paper's 10 minutes at its 1.0 s an update).",
        _BASE.replace(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3),
        TrainingConfig(steps=300_000, checkpoint_steps=600, average_last=20),
    ),
    "base_enfr": Preset(
        "The paper's base model for WMT 2014 en-fr: as base, with a vocabulary of 32,000 (section "
        "5.1; its word pieces are --vocab-kind wordpiece).",
        _BASE.replace(vocab_size=32_000),
        TrainingConfig(),
    ),
    "big_enfr": Preset(
        "The paper's big model for WMT 2014 en-fr: as big, with dropout 0.1 (section 6.1) and a "
        "vocabulary of 32,000 (section 5.1; its word pieces are --vocab-kind wordpiece).",
        _BASE.replace(vocab_size=32_000, d_model=1024, d_ff=4096, num_heads=16),
        TrainingConfig(steps=300_000, checkpoint_steps=600, average_last=20),
    ),
    "tiny": Preset(
        "Ours, for laptops and small corpora: the tiny transformer of later low-resource work "
        "(4 layers, 128 wide, 4 heads), with pre-norm, which learns faster at first, and batches "
        "of 4,096 tokens.",
        _TINY,
        TrainingConfig(
            steps=20_000,
            batch_tokens=4096,
            num_buckets=24,
            warmup_steps=2000,
            schedule_factor=2.0,
            checkpoint_steps=250,
            keep_checkpoints=10,
            evaluate_steps=1000,
            evaluate_sentences=1000,
        ),
    ),
    "multi30k": Preset(
        "Ours, for 40 minutes of training on Multi30k on two CPU cores: tiny, with small batches "
        "and a short warm-up, since in that time the number of updates counts for more than their "
        "size, a cooldown at the end, and the length penalty's alpha that was best on val.",
        _TINY.replace(vocab_size=6000, dropout=0.2),
        TrainingConfig(
            steps=5000,
            batch_tokens=2048,
            max_length=64,
            num_buckets=40,
            warmup_steps=400,
            cooldown_steps=1200,
            checkpoint_steps=50,
            keep_checkpoints=10,
            average_last=5,
            evaluate_steps=1000,
            evaluate_sentences=1014,
        ),
        DecodingConfig(alpha=1.4),
    ),
    "demo": Preset(
        "Ours, for the built-in synthetic demo corpus: minutes on a laptop's CPU.",
        _TINY.replace(vocab_size=1000, num_layers=2),
        TrainingConfig(
            steps=1200,
            batch_tokens=2048,
            max_length=64,
            num_buckets=16,
            warmup_steps=300,
            checkpoint_steps=50,
            keep_checkpoints=5,
            evaluate_steps=400,
            evaluate_sentences=200,
        ),
    ),
}


def find_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        ValueError: There is none; the message lists those there are.
    """
    if name not in PRESETS:
        raise ValueError(f"There is no preset {name!r}. There are: {', '.join(PRESETS)}.")
    return PRESETS[name]


def _table_3() -> dict[str, TransformerConfig]:
    rows = {
        "A1": {"num_heads": 1, "d_k": 512, "d_v": 512},
        "A4": {"num_heads": 4, "d_k": 128, "d_v": 128},
        "A16": {"num_heads": 16, "d_k": 32, "d_v": 32},
        "A32": {"num_heads": 32, "d_k": 16, "d_v": 16},
        "B16": {"d_k": 16},
        "B32": {"d_k": 32},
        "C_N2": {"num_layers": 2},
        "C_N4": {"num_layers": 4},
        "C_N8": {"num_layers": 8},
        "C_d256": {"d_model": 256, "d_k": 32, "d_v": 32},
        "C_d1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
        "C_ff1024": {"d_ff": 1024},
        "C_ff4096": {"d_ff": 4096},
        "D_dropout0": {"dropout": 0.0},
        "D_dropout2": {"dropout": 0.2},
        "E_learned": {"positions": "learned"},
    }
    return {name: _BASE.replace(**changes) for name, changes in rows.items()}


for _row, _model in _table_3().items():
    PRESETS[f"table3_{_row}"] = Preset(
        f"Table 3, row ({_row[0]}) of the paper: base with one change.", _model, TrainingConfig()
    )
for _name, _smoothing in {"0": 0.0, "2": 0.2}.items():
    PRESETS[f"table3_D_smoothing{_name}"] = Preset(
        "Table 3, row (D) of the paper: base with another label smoothing.",
        _BASE,
        TrainingConfig(label_smoothing=_smoothing),
    )
