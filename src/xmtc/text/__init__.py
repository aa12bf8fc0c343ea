"""Words to numbers: word rules, tokenizer and vocabulary, tf-idf, word vectors, the ragged token store."""
