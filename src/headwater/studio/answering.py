"""From a question to its answer: which module answers what."""

from __future__ import annotations

from typing import Any

from headwater.errors import UsageError
from headwater.inspect.inspector import Inspector
from headwater.machine import machine
from headwater.studio import (
    answers,
    document_answers,
    event_answers,
    function_answers,
    overview_answers,
    questions,
    workflow_answers,
)
from headwater.studio.deed_words import words_of
from headwater.studio.function_answers import Sight
from headwater.studio.graph_drawing import Drawings
from headwater.studio.overview_answers import Rates
from headwater.studio.questions import StudioQuestion


class SpaceAnswers:
    """Answers about one space, and what they remember: layouts and curves."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._drawings = Drawings()
        self._sight = Sight()
        self._rates = Rates()

    def answer(self, inspector: Inspector, question: StudioQuestion, *, seq: int) -> object:  # noqa: C901, PLR0911, PLR0912  # one for each
        """The answer. Raises HeadwaterError."""
        match question:
            case questions.Overview():
                now = machine().now_ms()
                return overview_answers.overview(inspector, self._sight, self._rates, question, seq=seq, now_ms=now)
            case questions.Search():
                return overview_answers.search(inspector, self._sight, question)
            case questions.GraphQuestion():
                return function_answers.graph(inspector, self._sight, self._drawings, question)
            case questions.Functions():
                return function_answers.functions(inspector, self._sight, self._drawings, question)
            case questions.FunctionQuestion():
                return function_answers.function(inspector, self._sight, self._drawings, question)
            case questions.Kinds():
                return document_answers.kinds(inspector, question)
            case questions.DocumentsQuestion():
                return document_answers.documents(inspector, question)
            case questions.DocumentQuestion():
                return document_answers.document(inspector, question)
            case questions.History():
                return document_answers.history(inspector, question)
            case questions.DifferenceQuestion():
                return document_answers.difference(inspector, question)
            case questions.Branches():
                return document_answers.branches(inspector, question)
            case questions.Commits():
                return document_answers.commits(inspector, question)
            case questions.QueryQuestion():
                return document_answers.query(inspector, question, self.url)
            case _:
                return self._more(inspector, question)

    def node_names(self, inspector: Inspector) -> tuple[dict[str, str], dict[str, str]]:
        """The name and the box of each function."""
        return function_answers.node_names(inspector, self._sight, self._drawings)

    def _more(self, inspector: Inspector, question: StudioQuestion) -> object:  # noqa: C901, PLR0911  # one for each
        match question:
            case questions.Events():
                return event_answers.events(inspector, question)
            case questions.EventQuestion():
                return event_answers.event(inspector, question)
            case questions.Handlers():
                return event_answers.handlers(inspector, question)
            case questions.PiecesQuestion():
                return event_answers.pieces(inspector, question)
            case questions.Resources():
                return event_answers.resources(inspector, question)
            case questions.WorkflowsQuestion():
                return workflow_answers.workflows(inspector, question)
            case questions.Runs():
                return workflow_answers.runs(inspector, question)
            case questions.RunQuestion():
                return workflow_answers.run(inspector, question)
            case questions.CollectionsQuestion():
                return document_answers.collections(inspector, question)
            case questions.Inputs():
                return workflow_answers.inputs(inspector, question)
            case _:
                raise UsageError(f"{question.__struct_config__.tag} cannot be asked here")


def intent(question: questions.IntentQuestion, *, url: str, why_not: str) -> answers.IntentView:
    """What a deed is about to do."""
    words = words_of(question.deed)
    return answers.IntentView(
        sentence=words.sentence,
        command=words.line(url) if words.command else "",
        button=words.button,
        asks=words.asks,
        allowed=not why_not,
        why_not=why_not,
    )


def is_of_functions(question: Any) -> bool:  # noqa: ANN401  # any question
    """Whether the answer is the state of functions, of which a program that ended leaves nothing."""
    return isinstance(
        question, questions.Overview | questions.GraphQuestion | questions.Functions | questions.FunctionQuestion
    )
