"""Word vectors learned on the corpus itself, for users without a file of them: PPMI of co-occurrences, then an SVD.

Levy, Goldberg, Dagan: Improving Distributional Similarity with Lessons Learned from Word Embeddings, TACL 2015. With
the same settings this does as well as skip-gram, which approximates the same matrix by stochastic gradients; here the
result is the same for the same seed, and there is no learning rate to choose. The settings are theirs but for the
window, in which a pair weighs 1 / distance, as with GloVe.

Cost: the distinct pairs of words that stand near each other, at most MOST_PAIRS, take some 50 bytes each at the worst
moment; time grows with pairs x dimensions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.sparse import Csr, make_csr
from xmtc.progress import progress
from xmtc.text.token_store import TokenStore
from xmtc.text.word_tokenizer import SPECIAL

#: About the standard deviation of GloVe's entries: a network trains with the same settings, whichever vectors it gets.
SPREAD = 0.4
SMOOTHING = 0.75  # of the contexts' frequencies: else PMI favours rare contexts, which tell least
MOST_PAIRS = 50_000_000
BLOCK_CODES = 16_000_000  # pairs sorted at a time, 8 bytes each
SPARE_DIMENSIONS = 10  # the last ones of a randomised SVD are the least exact
ROUNDS = 2  # of the randomised SVD; on library records more did not bring neighbours closer to GloVe's
RIDGE = 1e-4  # of the mean square of a learned dimension

Floats = NDArray[np.float32]


def learn_vectors(tokens: TokenStore, words: int, dimensions: int, seed: int = 0, window: int = 5) -> Floats:
    """Vectors, (words, dimensions), of the words of a `WordTokenizer`; words in like contexts get like vectors.

    Row 0 (padding) is zero; words that stand near no other word, and the unknown word, get random vectors. Entries have
    a standard deviation of about 0.4.

    >>> tokens = TokenStore.of([[2, 4], [2, 5], [3, 6], [3, 7]] * 5)
    >>> vectors = learn_vectors(tokens, words=8, dimensions=2)
    >>> cosine = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1) + 1e-9] * 2)
    >>> bool(cosine[4, 5] > 0.99), bool(abs(cosine[4, 6]) < 0.01)
    (True, True)
    """
    if len(tokens.ids) and int(tokens.ids.max()) >= words:
        raise ValueError(f"token id {tokens.ids.max()} in a vocabulary of {words}")
    matrix = ppmi(cooccurrences(tokens, words, window))
    left, singular = truncated_svd(matrix, dimensions, seed)
    found = left * np.sqrt(singular)
    # Frequent words' vectors would be ten times as long as rare ones'; with GloVe there is little between them.
    lengths = np.linalg.norm(found, axis=1)
    met = lengths > 0
    vectors = np.random.default_rng(seed).normal(0, SPREAD, (words, dimensions)).astype(np.float32)
    vectors[met] = 0  # a small vocabulary has fewer singular vectors than dimensions
    vectors[met, : found.shape[1]] = found[met] * (SPREAD * np.sqrt(dimensions) / lengths[met, None])
    vectors[0] = 0
    return vectors


def cooccurrences(tokens: TokenStore, words: int, window: int, most_pairs: int = MOST_PAIRS) -> Csr:
    """How often words stand within `window` of each other, each time weighed by 1 / distance: (words, contexts).

    Contexts are words too, all of them unless that makes more than `most_pairs` pairs: then the rarest are left out.

    >>> cooccurrences(TokenStore.of([[2, 3, 2]]), words=4, window=2).toarray()[2:, 2:]
    array([[1., 2.],
           [2., 0.]], dtype=float32)
    """
    from xmtc.kernels.cooccurrence import merge_pairs, pair_codes

    pairs, weights = np.zeros(0, np.int64), np.zeros(0, np.float32)
    contexts = words
    block = max(1, BLOCK_CODES // window)
    with progress("counting pairs of words", len(tokens.ids)) as bar:
        for start in range(0, len(tokens.ids), block):
            stop = min(start + block, len(tokens.ids))
            codes = pair_codes(tokens.ids, tokens.offsets, start, stop, window, len(SPECIAL), words, contexts)
            codes.sort()
            pairs, weights = merge_pairs(pairs, weights, codes, window)
            if len(pairs) > most_pairs:
                # To three quarters, lest every further block has to drop some. Pairs of a context that goes now are
                # not counted later, so the counts of those that stay are exact.
                of_contexts = np.cumsum(np.bincount(pairs % words, minlength=words))
                contexts = int(np.searchsorted(of_contexts, most_pairs * 3 // 4, side="right"))
                kept = pairs % words < contexts
                pairs, weights = pairs[kept], weights[kept]
            bar.advance(stop - start)
    indptr = np.searchsorted(pairs, np.arange(words + 1) * words)
    commoner = (pairs % words).astype(np.int32)
    del pairs  # the largest array; the sum below needs the room
    lower = make_csr(weights, commoner, indptr, (words, words))
    both: Csr = lower + lower.T.tocsr()  # each word is a context of the other; one beside itself is so twice
    return both if contexts == words else both[:, :contexts]


def ppmi(counts: Csr) -> Csr:
    """Positive pointwise mutual information, max(0, log P(word, context) / P(word) P(context)).

    The contexts' frequencies are smoothed.

    >>> ppmi(make_csr(np.array([4, 4], np.float32), np.array([0, 1]), np.array([0, 1, 2]), (2, 2))).toarray().round(2)
    array([[0.69, 0.  ],
           [0.  , 0.69]], dtype=float32)
    """
    of_words = counts.sum(axis=1, dtype=np.float64)
    of_contexts = counts.sum(axis=0, dtype=np.float64) ** SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):  # words that never occur have no entry either
        log_words = np.log(of_words).astype(np.float32)
        log_contexts = (np.log(of_contexts) - np.log(of_contexts.sum())).astype(np.float32)
    data = np.log(counts.data)
    data -= np.repeat(log_words, np.diff(counts.indptr))
    data -= log_contexts[counts.indices]
    matrix = make_csr(np.maximum(data, 0), counts.indices.copy(), counts.indptr.copy(), counts.shape)
    matrix.eliminate_zeros()
    return matrix


def truncated_svd(matrix: Csr, rank: int, seed: int) -> tuple[Floats, Floats]:
    """The first `rank` left singular vectors, (rows, rank), and singular values; fewer if the matrix is smaller.

    Halko, Martinsson, Tropp: Finding Structure with Randomness, SIAM Review 2011: a random subspace is turned towards
    the largest singular vectors by multiplying it with the matrix to and fro.

    >>> from scipy.sparse import csr_array
    >>> left, singular = truncated_svd(csr_array(np.diag(np.array([1, 3, 2], np.float32))), rank=2, seed=0)
    >>> singular.round(3).tolist(), abs(left.round(3)).tolist()
    ([3.0, 2.0], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    """
    width = min(rank + SPARE_DIMENSIONS, *matrix.shape)
    across = np.random.default_rng(seed).standard_normal((matrix.shape[1], width), np.float32)  # (columns, width)
    with progress("making word vectors", 2 * ROUNDS + 2) as bar:
        for _ in range(ROUNDS + 1):
            # Without this all columns would turn towards the first singular vector.
            down = _orthonormal(matrix @ _orthonormal(across))  # (rows, width)
            bar.advance()
            across = matrix.T @ down
            bar.advance()
    # Within the subspace the matrix is across.T.
    squares, axes = _axes(across)
    left, singular = down @ axes[:, :rank], np.sqrt(squares[:rank])
    # A singular vector may as well point the other way; let its largest entry be positive.
    largest = np.take_along_axis(left, np.abs(left).argmax(axis=0)[None], axis=0)
    return left * np.where(largest < 0, -1, 1).astype(np.float32), singular


def _axes(block: Floats) -> tuple[Floats, Floats]:
    """(squares, axes): squared singular values of a tall block, falling, and its right singular vectors, as columns.

    By way of the small matrix block.T @ block, some 10 times as fast as QR. That squares the condition number, so what
    is below a thousandth of the largest singular value drowns in rounding and is left out.
    """
    squares, axes = np.linalg.eigh((block.T @ block).astype(np.float64))
    kept = squares[::-1] > 1e-6 * squares.max(initial=0)
    return squares[::-1][kept].astype(np.float32), axes[:, ::-1][:, kept].astype(np.float32)


def _orthonormal(block: Floats) -> Floats:
    """A basis of the space that the columns span."""
    squares, axes = _axes(block)
    return block @ (axes / np.sqrt(squares)).astype(np.float32)


def fill_missing(table: Floats, known: NDArray[np.bool_], learned: Floats) -> Floats:
    """A table of vectors from a file, in which words the file does not know get theirs from `learned`.

    A linear map from learned vectors to the file's is fitted to the words that have both (ridge regression), and what
    it makes is scaled to the mean length of the file's vectors: least squares would leave it short. With fewer than two
    such words a dimension the table stays as it is.

    >>> learned = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    >>> table, known = 2 * learned[:, ::-1], np.arange(9) < 8
    >>> table[8] = 0
    >>> filled = fill_missing(table, known, learned)[8]
    >>> bool(np.isclose(filled[0] / filled[1], learned[8, 1] / learned[8, 0], rtol=1e-3))
    True
    """
    filled = table.copy()
    dimensions = learned.shape[1]
    if known.sum() < 2 * dimensions or known.all():
        return filled
    have = learned[known].astype(np.float64)
    gram = have.T @ have
    ridge = RIDGE * np.trace(gram) / dimensions * np.eye(dimensions)
    mapped = learned[~known] @ np.linalg.solve(gram + ridge, have.T @ table[known])
    lengths = np.linalg.norm(mapped, axis=1)
    if lengths.any():
        filled[~known] = mapped * (np.linalg.norm(table[known], axis=1).mean() / lengths[lengths > 0].mean())
    return filled
