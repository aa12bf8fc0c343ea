"""fastText and extremeText: averaged word and n-gram vectors, with a classifier per label or with label trees."""

from xmtc.models.fasttext.extremetext import ExtremeText
from xmtc.models.fasttext.model import FastText

__all__ = ["ExtremeText", "FastText"]
