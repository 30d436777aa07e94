"""Importing and constructing the providers loads no SDK."""

import subprocess
import sys
import textwrap


def test_importing_and_constructing_pulls_in_no_sdk_and_no_numpy() -> None:
    code = """
    import sys
    from charactermemory.adapters.embedding import (
        CachedQueries, HashingEmbedding, OpenAIEmbedding, WordLlamaEmbedding, guarded,
    )
    for provider in (OpenAIEmbedding("key"), WordLlamaEmbedding(), HashingEmbedding()):
        CachedQueries(guarded(provider)).vector_size()
    heavy = {"django", "fastembed", "httpx2", "numpy", "openai", "requests", "tokenizers", "wordllama"}
    print(sorted(heavy & set(sys.modules)))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
