"""Words that the style guide replaces do not come back: none in the pages for users, fewer and fewer elsewhere."""

import re
from collections.abc import Iterator

import click
import pytest

from headwater.cli.main import cli
from tests.docs.pages import ROOT, name_of, new_pages
from tests.docs.vocabulary import counted, files, find_in, findings_of, in_markdown, in_python, stored


def shown(name: str) -> str:
    rows = [f"  {name}:{line}: {word!r}: {instead}" for line, word, instead in findings_of(ROOT / name)]
    return "\n".join(rows)


def test_no_file_has_more_of_these_words_than_it_had() -> None:
    allowed = stored()
    more = [name for name, count in counted().items() if count > allowed.get(name, 0)]
    assert not more, "write instead:\n" + "\n".join(map(shown, more))


def test_the_stored_numbers_are_of_files_that_exist() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in files()}
    assert sorted(stored().keys() - names) == [], "run python -m tests.docs.vocabulary --shrink"


def test_pages_for_users_have_none() -> None:
    found = [shown(name_of(page)) for page in (ROOT / "README.md", *new_pages()) if findings_of(page)]
    assert not found, "write instead:\n" + "\n".join(found)


def commands(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(names), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, *names, name)


def test_help_texts_have_none() -> None:
    found = []
    for name, command in commands(cli, "headwater"):
        with click.Context(command, info_name=name) as context:
            text = re.sub(r"\s+", " ", command.get_help(context))
        found += [f"{name} --help: {word!r}: {instead}" for word, instead in find_in(text)]
    assert not found, "\n".join(found)


# --- the search itself ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Whoever reads it", "Whoever"),
        ("and somebody else", "somebody"),
        ("its effect is taken back", "taken back"),
        ("- in a list, nobody", "nobody"),
        ("| in a table | nobody |", "nobody"),
        ("[what became of it](x.md)", "what became of"),
    ],
)
def test_a_word_is_found_in_prose(text: str, word: str) -> None:
    assert [found.word for found in in_markdown(f"# Title\n\n{text}\n")] == [word]


@pytest.mark.parametrize(
    "text",
    [
        "`nobody` is a name",
        "```python\nnobody = 1\n```",
        "<!-- nobody\nsees this -->",
        "[text](nobody.md)",
        "a recommended amendment",
    ],
)
def test_code_and_other_words_are_left_alone(text: str) -> None:
    assert list(in_markdown(f"{text}\n")) == []


def test_docstrings_and_messages_are_prose_and_short_strings_are_not() -> None:
    docstring, message = '"""Nobody calls it, whoever it is."""', 'f"it was {x} told to nobody at all"'
    source = f"def f(x):\n    {docstring}\n    raise ValueError({message})\n"
    assert [(found.line, found.word.lower()) for found in in_python(source)] == [
        (2, "nobody"),
        (2, "whoever"),
        (3, "nobody"),
    ]
    assert list(in_python("kind = 'nobody'\n")) == []
