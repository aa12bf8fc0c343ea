"""Tf-idf, fit and transform, beside scikit-learn's TfidfVectorizer.

    python -m benchmarks.speed.tfidf [--data DIR]

scikit-learn is timed with its own tokenizer, which is its fastest way. That our matrix is the same is then checked
by giving it our words: columns are matched by term, values must agree within 1e-6.
"""

from __future__ import annotations

from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.timing import arguments, corpus, side_by_side
from xmtc.text.tfidf import TfIdf


def main() -> None:
    options = arguments(__doc__).parse_args()
    texts = corpus(options.data, "tibkat")[0].texts
    assert texts is not None
    plain = list(texts)
    TfIdf().fit_transform(texts[:100])  # load the kernels
    side_by_side(
        f"tf-idf of tibkat train, {len(texts):,} documents, unigrams",
        lambda: TfIdf().fit_transform(texts),
        "scikit-learn",
        lambda: TfidfVectorizer(sublinear_tf=True).fit_transform(plain),
    )

    ours = TfIdf()
    matrix = ours.fit_transform(texts)
    rules = ours.settings.rules
    theirs = TfidfVectorizer(sublinear_tf=True, analyzer=lambda text: list(rules.words(text)))
    expected = theirs.fit_transform(plain)
    assert set(ours.terms) == set(theirs.vocabulary_)
    columns = [theirs.vocabulary_[term] for term in ours.terms]
    difference = abs(matrix - expected[:, columns]).max()
    print(f"the same {matrix.shape[1]:,} terms and {matrix.nnz:,} weights, largest difference {difference:.1e}")
    assert difference < 1e-6


if __name__ == "__main__":
    main()
