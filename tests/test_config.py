"""A configuration holds what fits its fields, and says what does not, by name."""

import dataclasses
import json

import pytest

from keras_transformer.config import DataConfig, DecodingConfig, TrainingConfig, TransformerConfig
from keras_transformer.presets import PRESETS, find_preset

CLASSES = pytest.mark.parametrize(
    "cls", [TransformerConfig, TrainingConfig, DecodingConfig, DataConfig]
)
WAYS = {
    "constructor": lambda cls, name, value: cls(**{name: value}),
    "replace": lambda cls, name, value: cls().replace(**{name: value}),
    "from_dict": lambda cls, name, value: cls.from_dict({name: value}),
}
WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@CLASSES
def test_an_unknown_field_is_an_error_that_lists_the_fields(cls):
    for make in (cls().replace, lambda **values: cls.from_dict(values)):
        with pytest.raises(ValueError, match=f"{cls.__name__} has no field 'lenght'. It") as error:
            make(lenght=3)
        assert all(field.name in str(error.value) for field in dataclasses.fields(cls))


def test_an_unknown_field_of_a_preset_is_an_error():
    with pytest.raises(ValueError, match="TransformerConfig has no field 'beam_size'"):
        TransformerConfig.preset("base", beam_size=4)


@WAY
@pytest.mark.parametrize(
    ("cls", "name", "value", "wanted"),
    [
        (TransformerConfig, "d_model", "512", "int"),
        (TransformerConfig, "d_model", 512.0, "int"),
        (TransformerConfig, "d_model", None, "int"),
        (TransformerConfig, "num_layers", True, "int"),
        (TransformerConfig, "d_k", 1.5, "int or nothing"),
        (TransformerConfig, "dropout", "0.1", "float"),
        (TransformerConfig, "dropout", False, "float"),
        (TransformerConfig, "norm", 1, "str"),
        (TrainingConfig, "max_minutes", "40", "float or nothing"),
        (TrainingConfig, "jit_compile", 1, "bool"),
        (DecodingConfig, "beam_size", [4], "int"),
        (DataConfig, "shared_vocab", "no", "bool"),
        (DataConfig, "train_source", 3, "str or nothing"),
    ],
)
def test_a_wrong_type_is_an_error_that_names_field_type_and_value(way, cls, name, value, wanted):
    with pytest.raises(ValueError) as error:
        way(cls, name, value)
    message = f"{cls.__name__}.{name} should be of type {wanted}. Received: {value!r}."
    assert str(error.value) == message


@WAY
@pytest.mark.parametrize(
    ("cls", "name", "value", "wanted"),
    [
        (TransformerConfig, "vocab_size", 0, "at least 5"),
        (TransformerConfig, "num_layers", -1, "at least 1"),
        (TransformerConfig, "num_decoder_layers", 0, "at least 1"),
        (TransformerConfig, "attention_window", 0, "at least 1"),
        (TransformerConfig, "d_k", 0, "at least 1"),
        (TransformerConfig, "dropout", 1.0, "from 0 to below 1"),
        (TransformerConfig, "attention_dropout", -0.1, "from 0 to below 1"),
        (TransformerConfig, "relu_dropout", float("nan"), "a finite number"),
        (TransformerConfig, "layer_norm_epsilon", 0.0, "above 0"),
        (TrainingConfig, "ema_decay", 1.0, "above 0 and below 1"),
        (TransformerConfig, "norm", "Pre", "'post' or 'pre'"),
        (TransformerConfig, "tie_embeddings", "source", "'all', 'target' or 'none'"),
        (TransformerConfig, "positions", "sine", "'interleaved', 'concatenated' or 'learned'"),
        (TransformerConfig, "d_model", 511, "even"),
        (TransformerConfig, "num_heads", 7, "a divisor of d_model=512"),
        (TransformerConfig, "target_vocab_size", 5, "vocab_size=37000 when tie_embeddings='all'"),
        (TrainingConfig, "steps", 0, "at least 1"),
        (TrainingConfig, "max_length", 1, "at least 2"),
        (TrainingConfig, "label_smoothing", 1.0, "from 0 to below 1"),
        (TrainingConfig, "schedule_factor", 0.0, "above 0"),
        (TrainingConfig, "max_minutes", 0.0, "above 0"),
        (TrainingConfig, "seed", -1, "0 or more"),
        (TrainingConfig, "dtype_policy", "float16", "'mixed_float16'"),
        (TrainingConfig, "batch_tokens", 100, "at least max_length=256"),
        (TrainingConfig, "keep_checkpoints", 4, "at least average_last=5"),
        (DecodingConfig, "beam_size", 0, "at least 1"),
        (DecodingConfig, "alpha", -0.5, "0 or more"),
        (DecodingConfig, "max_source_length", 1, "at least 2"),
        (DecodingConfig, "beta", -1.0, "0 or more"),
        (DecodingConfig, "top_p", 0.0, "above 0, at most 1"),
        (DecodingConfig, "max_length", 0, "from 1 to 100000, or nothing"),
        (DecodingConfig, "max_length", 2**40, "from 1 to 100000, or nothing"),
        (DecodingConfig, "extra_length", 2**31, "at most 100000"),
        (DecodingConfig, "no_repeat_ngram", 10**9, "at most 64"),
        (DecodingConfig, "temperature", 1e-30, "0, or from 0.001 to 1000"),
        (DecodingConfig, "alpha", 1e300, "at most 100"),
        (DecodingConfig, "seed", 2**31, "a number of 32 bits"),
        (DataConfig, "vocab_kind", "char", "'bpe', 'wordpiece' or 't2t'"),
    ],
)
def test_a_bad_value_is_an_error_that_names_field_range_and_value(way, cls, name, value, wanted):
    with pytest.raises(ValueError) as error:
        way(cls, name, value)
    message = str(error.value)
    assert message.startswith(f"{cls.__name__}.{name} should be ") and wanted in message
    assert f"Received: {name}={value!r}." in message


def test_fields_that_go_together_are_checked_together():
    with pytest.raises(ValueError, match="Set temperature above 0 .* Received: top_k=5"):
        DecodingConfig(top_k=5)
    with pytest.raises(ValueError, match="max_length should be from 7 to 100000"):
        DecodingConfig(min_length=7, max_length=6)
    assert TransformerConfig(num_heads=7, d_k=64, d_v=64).d_k_ == 64
    assert TransformerConfig(d_model=511, num_heads=7, positions="learned").d_k_ == 73
    assert TransformerConfig(target_vocab_size=9, tie_embeddings="target").target_vocab_size_ == 9
    with pytest.raises(ValueError, match="train_source is given without train_target"):
        DataConfig(train_source="a")
    with pytest.raises(ValueError, match="valid_target is given without valid_source"):
        DataConfig(valid_target="a")
    with pytest.raises(ValueError, match="one of dataset.*Received several"):
        DataConfig(train_tsv="a", dataset="b")


@CLASSES
def test_a_configuration_comes_back_from_json(cls):
    config = cls()
    values = json.loads(json.dumps(config.to_dict()))
    assert set(values) == {field.name for field in dataclasses.fields(cls)}
    assert cls.from_dict(values) == config and hash(cls.from_dict(values)) == hash(config)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3


@WAY
def test_a_whole_number_does_for_a_float_field(way):
    config = way(TrainingConfig, "schedule_factor", 2)
    assert config.schedule_factor == 2.0 and isinstance(config.schedule_factor, float)
    assert isinstance(way(TrainingConfig, "max_minutes", 40).max_minutes, float)
    assert isinstance(way(DecodingConfig, "alpha", 0).alpha, float)


def test_nothing_leaves_a_field_to_another():
    config = TransformerConfig(d_model=32, num_heads=4, num_layers=3)
    assert (config.d_k_, config.d_v_) == (8, 8)
    assert (config.num_decoder_layers_, config.target_vocab_size_) == (3, 37000)
    config = config.replace(d_k=5, d_v=6, num_decoder_layers=1)
    assert (config.d_k_, config.d_v_, config.num_decoder_layers_) == (5, 6, 1)
    assert config.replace(d_k=None, d_v=None).d_v_ == 8
    assert TrainingConfig(max_minutes=None).max_minutes is None


def test_the_defaults_are_the_papers_base_model():
    model, training, decoding = TransformerConfig(), TrainingConfig(), DecodingConfig()
    assert (model.num_layers, model.d_model, model.d_ff, model.num_heads) == (6, 512, 2048, 8)
    assert (model.d_k_, model.d_v_, model.dropout) == (64, 64, 0.1)
    assert (model.attention_dropout, model.relu_dropout, model.norm) == (0.0, 0.0, "post")
    assert (model.tie_embeddings, model.positions) == ("all", "interleaved")
    assert (training.steps, training.batch_tokens, training.warmup_steps) == (100_000, 25_000, 4000)
    assert (training.adam_beta1, training.adam_beta2, training.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (training.label_smoothing, training.schedule_factor) == (0.1, 1.0)
    assert (decoding.beam_size, decoding.alpha, decoding.extra_length) == (4, 0.6, 50)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_three_configurations_with_a_source(name):
    preset = find_preset(name)
    assert len(preset.provenance) > 40
    for cls, part in (
        (TransformerConfig, preset.model),
        (TrainingConfig, preset.training),
        (DecodingConfig, preset.decoding),
    ):
        assert cls.preset(name) == part == cls.from_dict(part.to_dict())


def test_a_preset_takes_overrides():
    config = TransformerConfig.preset("big", vocab_size=100)
    assert (config.vocab_size, config.d_model, config.dropout) == (100, 1024, 0.3)
    assert DecodingConfig.preset("tiny", beam_size=1).beam_size == 1


def test_an_unknown_preset_is_an_error_that_lists_the_presets():
    for find in (find_preset, TransformerConfig.preset, TrainingConfig.preset):
        with pytest.raises(ValueError, match="There is no preset 'huge'. There are: ") as error:
            find("huge")
        assert all(name in str(error.value) for name in PRESETS)


@pytest.mark.parametrize(
    ("name", "changes"),
    {
        "big": {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3},
        "table3_A32": {"num_heads": 32, "d_k": 16, "d_v": 16},
        "table3_B16": {"d_k": 16},
        "table3_C_N2": {"num_layers": 2},
        "table3_C_d256": {"d_model": 256, "d_k": 32, "d_v": 32},
        "table3_C_d1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
        "table3_C_ff4096": {"d_ff": 4096},
        "table3_D_dropout0": {"dropout": 0.0},
        "table3_D_smoothing2": {},
        "table3_E_learned": {"positions": "learned"},
    }.items(),
)
def test_a_row_of_table_3_is_base_with_its_changes(name, changes):
    base, row = TransformerConfig().to_dict(), find_preset(name).model.to_dict()
    assert {field: row[field] for field in row if row[field] != base[field]} == changes


def test_label_smoothing_is_what_the_last_rows_of_d_change():
    found = [find_preset(f"table3_D_smoothing{i}").training.label_smoothing for i in "02"]
    assert found == [0.0, 0.2]


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(TrainingConfig, "schedule_factor"), (TrainingConfig, "clip_norm"), (DecodingConfig, "alpha")],
)
def test_a_number_that_is_not_finite_fits_no_field(kind, name, value):
    with pytest.raises(ValueError, match=f"{name} should be a finite number"):
        kind(**{name: value})
