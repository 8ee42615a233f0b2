"""Flash cards: a pattern that is started for each word of a list. Each card has a box of its own, and remembers it."""

from dataclasses import dataclass

import headwater as hw

WORDS = {"Bach": "brook", "See": "lake", "Quelle": "spring"}


class Word(hw.Doc):
    front: str
    back: str


class Deck(hw.Doc):
    words: hw.List[Word] = hw.List()


@dataclass
class Card:
    box: hw.Cell[int]
    answer: hw.Handler[[str], bool]


@hw.pattern
def card(p: hw.Builder, word: Word) -> Card:  # called for each word: it only builds
    box = p.cell("box", 1)

    @p.handler
    def answer(text: str) -> bool:
        if text == word.back:
            box.value += 1
        return text == word.back

    @p.sink
    def show() -> None:
        print(f"  {word.front:8}box {box.value}")

    return Card(box, answer)


app = hw.App("cards")
deck = app.doc("deck", Deck)


@app.computed
def cards() -> list[hw.Piece[Card]]:  # the same word is the same card; without its word, a card is stopped
    return [hw.start(card, hw.id_of(word), word=word) for word in deck.words]


@app.sink
def progress() -> None:
    boxes = [each.outputs.box.value for each in cards()]
    print(f"cards: {len(boxes)}, known: {sum(box > 1 for box in boxes)}")


def say(*texts: str) -> None:
    """Answer the cards, one after the other."""
    for each, text in zip(cards(), texts, strict=False):
        print(f"{text}:", "right" if each.outputs.answer.send(text).result() else "wrong")


if __name__ == "__main__":
    with app.open("cards.db") as space:
        if not deck.words:
            with space.transaction():
                deck.words.extend([Word(front=front, back=back) for front, back in WORDS.items()])
        say("brook", "sea", "spring")
        learnt = [word for each, word in zip(cards(), deck.words, strict=True) if each.outputs.box.value > 2]
        if learnt:
            print("learnt:", ", ".join(word.front for word in learnt))
            deck.words = [word for word in deck.words if word not in learnt]  # stops their cards
