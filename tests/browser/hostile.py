"""A space whose every text tries to be more than a text. `python hostile.py FILE`."""

import sys
from collections.abc import Sequence

import headwater as hw

TEXTS = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "javascript:alert(3)",
    '"><svg onload=alert(4)>',
    "\u202egnp.exe\u2066",
    "a\x00b\x07c\x1b[31m",
    "word" * 5000,
    "{{7*7}}${7*7}",
)
app = hw.App("hostile")
notes = app.cell("notes", list[str]())
table = app.cell("table", dict[str, str]())


@app.computed
def shout(text: str) -> str:
    return text.upper()


@app.sink
def show() -> None:
    for text in notes.value:
        shout(text)


@app.handler
def fail(text: str) -> None:
    raise ValueError(text)


flow = app.workflow("flow")
topic = flow.topic("topic", str)


@flow.consumer(topic)
class Ask(hw.Consumer[str, str, str]):
    def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[str]:
        if not pending:
            return hw.Plan.idle()
        return hw.Plan(pending[0].data, take=pending[:1], title=pending[0].data, ask=True)

    def mutate(self, _run: hw.Run, data: str) -> str:
        return data


if __name__ == "__main__":
    with app.open(sys.argv[1], actor="<b>ann</b>") as opened:
        notes.value = list(TEXTS)
        table.value = {text[:100]: text for text in TEXTS}
        for each in TEXTS:
            fail.send(each)
        topic.publish(TEXTS[0], id="<i>1</i>", title=TEXTS[1])
        opened.workflows.drain()
        print("ready", flush=True)
        opened.wait("1h")
