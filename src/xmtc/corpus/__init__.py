"""Corpora: documents with labels, in any common format."""
