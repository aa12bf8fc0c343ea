"""Encoders small enough for tests, made and saved as Hugging Face folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

SENTENCES = (
    "ship sail wave harbour anchor tide captain deck",
    "bread oven flour butter knife salt pepper soup",
    "cloud wind rain storm sun rainbow thunder snow",
    "東京 大阪 街 駅 電車",
    "корабль волна парус капитан",
    "the quick brown fox jumps over the lazy dog",
    "a council regulation on the import of green apples",
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 130,
    "initializer_range": 0.1,
}


def tiny_bert(folder: Path, sentences: Sequence[str] = SENTENCES, **changes: Any) -> Path:
    """A random BERT whose words are those of the sentences."""
    return _word_pieces(folder, "bert", sentences, {**SMALL, **changes})


def tiny_like_bert(folder: Path, kind: str) -> Path:
    """A random encoder of another family, with BERT's tokenizer."""
    other = {
        "distilbert": {
            "dim": 16,
            "n_layers": 3,
            "n_heads": 2,
            "hidden_dim": 32,
            "max_position_embeddings": 130,
            "initializer_range": 0.1,
        },
        "electra": {**SMALL, "embedding_size": 8},
        "albert": {**SMALL, "embedding_size": 8},
    }
    positions = {"max_position_embeddings": 132} if "roberta" in kind or kind == "camembert" else {}
    settings = other.get(kind, {**SMALL, **positions})
    return _word_pieces(folder, kind, SENTENCES, {**settings, "pad_token_id": 0})


def _word_pieces(folder: Path, kind: str, sentences: Sequence[str], settings: dict[str, Any]) -> Path:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

    words = sorted({word for sentence in sentences for word in sentence.lower().split()})
    letters = sorted({letter for word in words for letter in word})
    pieces = [*SPECIAL, *words, *(each for letter in letters for each in (letter, f"##{letter}") if each not in words)]
    tokenizer = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModel.from_config(AutoConfig.for_model(kind, vocab_size=len(pieces), **settings)).save_pretrained(folder)
    return folder


def tiny_xlnet(folder: Path, sentences: Sequence[str] = SENTENCES, **changes: Any) -> Path:
    """A random XLNet with a SentencePiece model that is trained on the sentences."""
    import sentencepiece
    from transformers import AutoTokenizer, XLNetConfig, XLNetModel

    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(sentences) * 20),
        model_prefix=str(folder / "spiece"),
        vocab_size=120,
        hard_vocab_limit=False,
        character_coverage=1.0,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        minloglevel=2,
        control_symbols=["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"],
        user_defined_symbols=["<eop>"],
    )
    (folder / "spiece.vocab").unlink()
    settings = {"d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 32, "initializer_range": 0.1, **changes}
    (folder / "config.json").write_text(XLNetConfig(vocab_size=1, **settings).to_json_string())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = XLNetConfig(
        vocab_size=1 + max(tokenizer.get_vocab().values()), pad_token_id=tokenizer.pad_token_id, **settings
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        XLNetModel(config).save_pretrained(folder)
    return folder
