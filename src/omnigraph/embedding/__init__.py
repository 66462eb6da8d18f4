"""Embedding: vectors made from texts, by a provider that the settings choose.

`providers.embedder_of(settings)` returns an `Embedder`. Making one is cheap; a model is loaded, or
a service asked, when the first text is embedded.
"""
