"""Coverage-guided fuzzing of everything that decodes what others wrote: `make fuzz`.

    target     what is decoded, and what must hold for every input
    targets    the targets, by kind of input
    mutation   changes of an input that keep it JSON, so that it gets past the parser
    process    one target under libFuzzer (atheris), in a process of its own
    __main__   all targets for N seconds, a table, and the inputs that failed
    seeds      the first inputs of the corpus, from tests/golden
    corpus     saved inputs: seeds, inputs that reach more code, and every input that failed once

tests/unit/test_fuzz_corpus.py replays the corpus in every `make test`.
"""
