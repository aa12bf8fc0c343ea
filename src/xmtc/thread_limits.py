"""The variables by which libraries learn how many threads to start."""

#: What numba, OpenMP (torch, faiss, Arrow), the libraries of linear algebra and tokenizers read when they start.
VARIABLES = (
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
)
