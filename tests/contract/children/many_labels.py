"""Train and predict with 200,000 labels while the process may not take more than 2 GiB."""

import json
import resource
import sys

import numpy as np

CAP = 2 << 30
resource.setrlimit(resource.RLIMIT_DATA, (CAP, CAP))

from xmtc.corpus.corpus import Corpus, label_matrix  # noqa: E402
from xmtc.corpus.labels import LabelSet  # noqa: E402
from xmtc.corpus.strings import Strings  # noqa: E402
from xmtc.models.registry import make  # noqa: E402

LABELS, DOCUMENTS, PER_DOCUMENT = 200_000, int(sys.argv[3]), 10
rng = np.random.default_rng(0)
words = np.array([f"w{i}" for i in range(5_000)])
texts = Strings.of(" ".join(row) for row in words[rng.integers(0, len(words), (DOCUMENTS, 20))])
ends = np.arange(0, DOCUMENTS * PER_DOCUMENT + 1, PER_DOCUMENT)
targets = label_matrix(rng.permutation(LABELS)[: ends[-1]], ends, LABELS)
corpus = Corpus(targets, LabelSet.of(f"label {i}" for i in range(LABELS)), texts=texts)
model = make(sys.argv[1], **json.loads(sys.argv[2])).fit(corpus)
top = model.predict(corpus[:1_000], k=5)
assert top.ids.shape == (min(1_000, DOCUMENTS), 5)
within = model.predict(corpus[:20], k=5, only=[f"label {i}" for i in range(0, LABELS, 4_000)])
assert within.ids.shape == (20, 5)
assert not (within.ids[within.ids >= 0] % 4_000).any()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
assert peak < CAP
print(json.dumps({"labels": len(top.labels), "peak": peak}))
