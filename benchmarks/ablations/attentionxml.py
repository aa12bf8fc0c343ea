"""AttentionXML taken apart on `debtags`, as in the paper's Table 4, over several seeds; and the seeds together.

    python -m benchmarks.ablations.attentionxml --models DIR [--data DIR] [--seeds 0,1,2] [--words-file FILE]
        [--variants xml-cnn,bilstm,no-averaging,full] [--set key=value ...] [--validate]

`full` is recipes/attentionxml/debtags.yaml, the others are the recipes beside it and that of `xml_cnn`. Models are
trained as `xmtc train` does it and judged by the test documents; with --validate, a tenth of the training documents
takes their place, cut out in blocks of the file. Models are kept in --models, and what is there is not trained again:
so variants and seeds can be trained one after the other, or on one core each (`OMP_NUM_THREADS=1`).
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.ablations.treaderxml import METRICS, blocks
from benchmarks.timing import arguments, corpus, over_seeds
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.registry import load, make
from xmtc.predictions import Predictions
from xmtc.recipes import put, read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
FILES = {
    "xml-cnn": "xml_cnn/debtags.yaml",
    "bilstm": "xml_cnn/debtags-bilstm.yaml",
    "no-averaging": "attentionxml/debtags-no-averaging.yaml",
    "full": "attentionxml/debtags.yaml",
}
KEPT = 100  # labels of each document, for the seeds together


def trained(variant: str, seed: int, pairs: list[str], train: Corpus, folder: Path) -> Model:
    """The model in the folder, which is trained first if it is not there."""
    if not folder.exists():
        name, settings = read_recipe(str(RECIPES / FILES[variant]))
        assert name is not None
        for pair in pairs:
            put(settings, pair)
        make(name, **settings, seed=seed).fit(train).save(folder)
    return load(folder)


def figures(found: Predictions, test: Corpus, train: Corpus) -> dict[str, float]:
    values = evaluate(found, test, train_documents=len(train)).values
    return {metric: values[metric] for metric in METRICS}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", type=Path, required=True, help="folder of trained models")
    parser.add_argument("--variants", default=",".join(FILES))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--words-file", help="word vectors; else they are learned on the documents")
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for all variants")
    parser.add_argument("--validate", action="store_true")
    options = parser.parse_args()
    pairs = [*options.set, *([f"words.vectors={options.words_file}"] if options.words_file else [])]
    train, test = corpus(options.data, "debtags")
    if options.validate:
        train, test = blocks(train, 0)
    for variant in options.variants.split(","):
        each, lists = [], []
        for seed in map(int, options.seeds.split(",")):
            model = trained(variant, seed, pairs, train, options.models / f"{variant}-{seed}")
            lists.append(model.predict(test, k=KEPT))
            each.append(figures(lists[-1], test, train) | {"train s": model.training_["seconds"]})
            print(f"  seed {seed}: " + " / ".join(f"{each[-1][metric]:.2f}" for metric in METRICS), flush=True)
        print(over_seeds("debtags", variant, each), flush=True)
        together = figures(Predictions.blend(lists, k=KEPT), test, train)
        print("  together: " + " / ".join(f"{together[metric]:.2f}" for metric in METRICS), flush=True)


if __name__ == "__main__":
    main()
