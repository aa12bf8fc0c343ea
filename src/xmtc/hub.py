"""Models on the Hugging Face Hub: `hf://user/name[@revision]` is downloaded, a model folder is uploaded."""
