"""Word tokenizer and vocabulary on the `tokenizers` library: texts to sequences of ids, saved as tokenizer.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, ConfigError
from xmtc.extras import require
from xmtc.progress import progress
from xmtc.text.tfidf import TfIdf, TfIdfSettings
from xmtc.text.token_store import TokenStore
from xmtc.text.word_rules import WordRules

PAD, UNKNOWN = 0, 1
SPECIAL = ("<pad>", "<unk>")
MOST_WORDS = 500_000
BATCH = 512


class WordTokenizer:
    """Words to ids: 0 pads, 1 is any unknown word, 2 the word in most training documents, and so on.

    The vocabulary is made from training documents by document frequency; a document without any word becomes one
    unknown word, so that no network ever meets an empty sequence.

    >>> tokenizer = WordTokenizer.train(Strings.of(["the cat", "the dog", "the cat and"]))
    >>> tokenizer.encode(Strings.of(["The cat, the bird!", "?"])).ids.tolist()
    [2, 3, 2, 1, 1]
    >>> tokenizer.words[:4]
    ['<pad>', '<unk>', 'the', 'cat']
    """

    def __init__(self, hf_tokenizer: Any) -> None:
        self._hf = hf_tokenizer

    @classmethod
    def train(
        cls, texts: Strings, max_words: int = MOST_WORDS, min_df: int = 1, rules: WordRules | None = None
    ) -> WordTokenizer:
        """Learn a vocabulary of at most `max_words` entries, the two special ones included."""
        require("a word tokenizer", "neural", "tokenizers")
        from tokenizers import Tokenizer, models

        if max_words <= len(SPECIAL):
            raise ConfigError(f"max_words must be above {len(SPECIAL)}, the number of special words, not {max_words}")
        rules = rules or WordRules()
        counter = TfIdf(TfIdfSettings(**asdict(rules), min_df=min_df, max_terms=max_words - len(SPECIAL)))
        vocabulary = {word: i for i, word in enumerate((*SPECIAL, *counter.fit(texts).terms))}
        hf_tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[UNKNOWN]))
        hf_tokenizer.normalizer = rules.hf_normalizer()
        hf_tokenizer.pre_tokenizer = rules.hf_pre_tokenizer()
        return cls(hf_tokenizer)

    def __len__(self) -> int:
        return int(self._hf.get_vocab_size())

    @property
    def words(self) -> list[str]:
        """All words, by id."""
        by_id = sorted(self._hf.get_vocab().items(), key=lambda entry: entry[1])
        return [word for word, _ in by_id]

    def encode(self, texts: Strings, max_tokens: int | None = None) -> TokenStore:
        """Ids of the words of each text, cut to the first `max_tokens`."""
        ids: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        with progress("tokenizing", len(texts)) as bar:
            for start in range(0, len(texts), BATCH):
                batch = list(texts[start : start + BATCH])
                encodings = self._hf.encode_batch_fast(batch, add_special_tokens=False)
                ids += [np.array(encoding.ids[:max_tokens] or [UNKNOWN], np.int32) for encoding in encodings]
                bar.advance(len(batch))
        return TokenStore.of(ids)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each word of a text stands, as (start, end) in characters: for highlighting."""
        return [tuple(span) for span in self._hf.encode(text, add_special_tokens=False).offsets]

    def to_json(self) -> str:
        """The content of tokenizer.json, which the `tokenizers` library reads too."""
        return str(self._hf.to_str(pretty=False))

    @classmethod
    def from_json(cls, content: str) -> WordTokenizer:
        """The inverse of `to_json`."""
        require("a word tokenizer", "neural", "tokenizers")
        from tokenizers import Tokenizer

        try:
            model = json.loads(content)["model"]
            known = [word for word, i in sorted(model["vocab"].items(), key=lambda entry: entry[1])[: len(SPECIAL)]]
            if model["type"] != "WordLevel" or tuple(known) != SPECIAL:
                raise BadModelFolder("tokenizer.json is not a word tokenizer of xmtc")
            return cls(Tokenizer.from_str(content))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadModelFolder(f"tokenizer.json is damaged: {error}") from error
