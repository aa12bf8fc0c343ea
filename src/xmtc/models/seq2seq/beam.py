"""Beam search over label sequences, and the probability that each label is emitted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from xmtc.models.seq2seq.network import Seq2SeqNetwork
from xmtc.models.seq2seq.output import without
from xmtc.nn.layers import lookup

NEGLIGIBLE = 1e-4  # a document is finished when its unfinished sequences have no more probability than this


@dataclass(frozen=True)
class BeamStep:
    """The sequences that are followed, and how probable each label is as the next of them."""

    documents: Tensor  #: (documents,), those of the batch that are not finished
    prefixes: Tensor  #: (documents, beam, labels so far)
    scores: Tensor  #: (documents, beam), log-probabilities of the prefixes
    emissions: Tensor  #: (documents, beam, labels), of a prefix and then a label, if that label is new
    attention: Tensor  #: (documents, beam, tokens)


@torch.inference_mode()
def beam_steps(network: Seq2SeqNetwork, ids: Tensor, lengths: Tensor, width: int, most: int) -> Iterator[BeamStep]:
    """Step by step the `width` most probable prefixes of each document, up to `most` labels.

    Sequences that have ended leave the beam: what is asked for is every label, not one whole sequence.
    """
    memory = network.encode(ids, lengths)
    documents = torch.arange(len(ids), device=ids.device)
    scores = torch.zeros(len(ids), 1, device=ids.device)
    prefixes = ids.new_zeros(len(ids), 1, 0)
    symbols = ids.new_full((len(ids), 1), network.start_symbol)
    decoding = network.start(memory)
    for step in range(most):
        emitted = prefixes if network.masked else None
        decoding, vectors, attention = network.step(lookup(network.labels, symbols), decoding, memory, emitted)
        joint = scores[:, :, None] + network.output(vectors, emitted)[..., :-1]  # (documents, beam, labels)
        yield BeamStep(documents, prefixes, scores, without(joint, prefixes), attention)
        labels = joint.shape[2]
        scores, found = joint.flatten(1).topk(min(width, joint.shape[1] * labels))
        parents, symbols = found // labels, found % labels
        prefixes = prefixes.gather(1, parents[:, :, None].expand(-1, -1, step))
        prefixes = torch.cat([prefixes, symbols[:, :, None]], -1)
        going_on = (scores.logsumexp(1) > math.log(NEGLIGIBLE)).nonzero()[:, 0]
        if not len(going_on):
            return
        decoding = decoding.take(parents)
        if len(going_on) < len(documents):
            documents, scores, symbols, prefixes = (each[going_on] for each in (documents, scores, symbols, prefixes))
            decoding, memory = decoding.of(going_on), memory.take(going_on)


@torch.inference_mode()
def emission_probabilities(network: Seq2SeqNetwork, ids: Tensor, lengths: Tensor, width: int, most: int) -> Tensor:
    """How probable it is that each label is emitted at all, (documents, labels): the sum over all steps of the beam.

    With a beam as wide as all sequences it is exact, else what the beam leaves out is missing.
    """
    total = torch.zeros(len(ids), network.output.ends[-1], device=ids.device)
    for step in beam_steps(network, ids, lengths, width, most):
        total.index_add_(0, step.documents, step.emissions.exp().sum(1))
    return total.clamp_(max=1)
