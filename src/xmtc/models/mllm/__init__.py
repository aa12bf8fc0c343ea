"""Maui-like lexical matching: labels whose names stand in the text."""

from xmtc.models.mllm.model import Mllm, MllmConfig

__all__ = ["Mllm", "MllmConfig"]
