"""Slice: linear classifiers in dense vectors, trained on the documents that are most confusing for each label."""

from xmtc.models.slice.model import Slice, SliceConfig

__all__ = ["Slice", "SliceConfig"]
