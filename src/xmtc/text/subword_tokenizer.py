"""Texts to the word pieces of a pretrained encoder, with the `tokenizers` library alone: no transformers, no torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, ConfigError
from xmtc.extras import require
from xmtc.progress import progress
from xmtc.text.token_store import TokenStore

BATCH = 512
LONGEST_PIECE = 40  # characters for each wanted token; the rest of a very long text is not read
PROBE = "a"


class SubwordTokenizer:
    """Texts to piece ids, with the special tokens that an encoder was trained with before and after them.

    These are read off the tokenizer itself: BERT's [CLS] before and [SEP] after a text, XLNet's <sep> and <cls> after.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers, processors
    >>> known = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "cat": 3, "##s": 4}
    >>> pieces = Tokenizer(models.WordPiece(known, unk_token="[UNK]"))
    >>> pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> pieces.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    >>> tokenizer = SubwordTokenizer(pieces)
    >>> tokenizer.before, tokenizer.after, tokenizer.encode(Strings.of(["cats cat cat", ""]), max_tokens=5).ids.tolist()
    ([1], [2], [1, 3, 4, 3, 2, 1, 2])
    """

    def __init__(self, hf_tokenizer: Any) -> None:
        hf_tokenizer.no_truncation()
        hf_tokenizer.no_padding()  # some are saved with both
        self._hf = hf_tokenizer
        try:
            alone, whole = (hf_tokenizer.encode(PROBE, add_special_tokens=special).ids for special in (False, True))
        except Exception as error:  # the library raises nothing more special
            raise ValueError(str(error)) from error
        places = [at for at in range(len(whole)) if whole[at : at + len(alone)] == alone]
        if not alone or not places:
            raise ValueError("it makes nothing of a text")
        self.before: list[int] = whole[: places[0]]
        self.after: list[int] = whole[places[0] + len(alone) :]

    def __len__(self) -> int:
        """One more than the highest id: there may be gaps."""
        return 1 + int(max(self._hf.get_vocab(with_added_tokens=True).values()))

    def encode(self, texts: Strings, max_tokens: int) -> TokenStore:
        """Ids of the pieces of each text, at most `max_tokens` with the special ones; all cores share the work."""
        room = max_tokens - len(self.before) - len(self.after)
        if room < 1:
            raise ConfigError(f"max_tokens={max_tokens} leaves no room beside the encoder's special tokens")
        ids: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        with progress("tokenizing", len(texts)) as bar:
            for start in range(0, len(texts), BATCH):
                batch = [text[: LONGEST_PIECE * max_tokens] for text in texts[start : start + BATCH]]
                found = self._hf.encode_batch_fast(batch, add_special_tokens=False)
                ids += [np.array([*self.before, *each.ids[:room], *self.after], np.int32) for each in found]
                bar.advance(len(batch))
        return TokenStore.of(ids)

    def to_json(self) -> str:
        """The content of tokenizer.json, which the `tokenizers` library reads too."""
        return str(self._hf.to_str(pretty=False))

    @classmethod
    def from_json(cls, content: str) -> SubwordTokenizer:
        """The inverse of `to_json`."""
        require("a subword tokenizer", "neural", "tokenizers")
        from tokenizers import Tokenizer

        try:
            return cls(Tokenizer.from_str(content))
        except Exception as error:
            raise BadModelFolder(f"tokenizer.json is damaged: {error}") from error
