"""Torch layers, batches and the training task that the neural methods share."""
