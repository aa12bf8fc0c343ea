"""Files of predictions: written by `xmtc predict --out FILE` in the format that the suffix names, and read again.

JSON (`.jsonl`, `.ndjson`, `.json`) has one object a document, `{"id", "labels": [{"label", "name", "score"}]}`. Tables
(`.csv`, `.tsv`, `.parquet`, `.xlsx`) have one row a label: id, rank, label, name and score, and a document without any
label has one row with its id alone; or one row a document: id, labels, names and scores, each a list.
"""
