"""Load a model in a fresh process and predict the texts that come on standard input."""

import json
import sys

import xmtc

model = xmtc.load(sys.argv[1])
top = model.predict(json.load(sys.stdin), k=4)
answer = {
    "ids": top.ids.tolist(),
    "scores": top.scores.tolist(),
    "names": [[name for name, _ in row] for row in top.names()],
    "train_documents": model.train_documents_,
}
assert not {"lightning", "ray"} & set(sys.modules), "prediction needs neither Lightning nor Ray"
print(json.dumps(answer))
