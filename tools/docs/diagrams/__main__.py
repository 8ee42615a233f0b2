"""Draws the diagrams of the documentation: `python -m tools.docs.diagrams` writes docs/diagrams/NAME-THEME.svg."""

from tools.docs.diagrams.catalog import FOLDER, draw_all


def main() -> None:
    """Write all files, and remove those that no diagram makes."""
    FOLDER.mkdir(exist_ok=True)
    drawn = dict(draw_all())
    for path in FOLDER.glob("*.svg"):
        if path.name not in drawn:
            path.unlink()
    for name, text in drawn.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(drawn)} files in {FOLDER}")


if __name__ == "__main__":
    main()
