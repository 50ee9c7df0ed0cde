"""Data errors for whoever has not all options of `load`: a way out that is not open there is told as one that is."""

import re
from collections.abc import Collection, Generator
from contextlib import contextmanager

from .spec import DataError

# Option -> what a message says of it, and what can be done without.
_WAYS = {
    "on_bad": ((r"or give on_bad='skip'", "or leave the row out"),),
    "labels": (
        (r"no label at all; learning needs two classes: .*?\]", "no label at all: nothing can be scored"),
        (
            r"; learning needs two classes: .*?\]",
            "; add rows of another class, or name the classes in config.json (id2label)",
        ),
        (r"or give labels=\[\.\.\.\]", "or leave the row out"),
        (r"give labels=\[\.\.\.\] \(--data\.labels\)", "leave its rows out"),
        (r"give labels=\[\.\.\.\]", "name the classes in config.json (id2label)"),
    ),
    "head": (
        (r"should be one label: give head='multilabel'", "should be one label, as the model gives one"),
        (r",? or give head='\w+'( if each line is a word and its tag)?", ""),
    ),
    "quoting": ((r",? or give quoting=\w+ or delimiter= if the file differs", ""), (r" or give quoting=\w+", "")),
    "max_line": ((r" or give max_line=\d+ if the text is real", ""),),
    "encoding": ((r' or give encoding="cp1252" \(or what it is written in\)', ""),),
    "dir": ((r", or the folder as dir=", ""),),
    "train_file": (
        (r", or a file as train_file=", ""),
        (r" For your own files give train_file=\.\.\. and no task\.", " For a file of your own give file= (--file)."),
    ),
}


def reworded(message: str, known: Collection[str]) -> str:
    """The message without the options that are not `known`."""
    for option, ways in _WAYS.items():
        for said, instead in ways if option not in known else ():
            message = re.sub(said, instead, message)
    return message


@contextmanager
def own_words(known: Collection[str]) -> Generator[None]:
    """Data errors in the words of a function that has the options `known`; over it, or round a part of it."""
    try:
        yield
    except DataError as error:
        raise DataError(reworded(str(error), known)) from error
