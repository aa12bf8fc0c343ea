"""fastText: averaged word and n-gram vectors."""

from xmtc.models.fasttext.model import FastText

__all__ = ["FastText"]
