"""Nearest neighbours, sparse and dense, and beam search over label trees."""
