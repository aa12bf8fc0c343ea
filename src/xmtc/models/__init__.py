"""The methods: one file per paper, the contract they fulfil, and the catalogue of their names."""
