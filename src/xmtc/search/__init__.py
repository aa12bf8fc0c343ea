"""Finding things fast: nearest neighbours; beam search over label trees will live here too."""
