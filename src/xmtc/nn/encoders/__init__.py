"""Pretrained transformers: load them, encode texts with them, cache what frozen layers give."""
