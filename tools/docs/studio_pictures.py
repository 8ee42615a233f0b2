"""Pictures of the Studio for the documentation, made from the real page.

`python -m tools.docs.studio_pictures` writes docs/assets/studio-SCREEN-THEME.png. It takes Chromium, and the Playwright
of the development environment. The program is that of the tests in a browser.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import opened, studio
from tests.browser.finding import BROWSER
from tests.browser.pages import Wide

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs" / "assets"
SHOP: Final = ROOT / "tests" / "browser" / "shop.py"

SCREENS: Final = {"functions": "graph", "overview": "overview"}
"""The addresses of the screens in the page."""

WAYS: Final = tuple(Wide(theme, width=1280, height=800, theme=theme) for theme in ("light", "dark"))


def draw(folder: Path = FOLDER) -> list[Path]:
    """Write all pictures."""
    if BROWSER is None:
        raise SystemExit("no Chromium was found: install it, or name it with HEADWATER_CHROMIUM")
    made: list[Path] = []
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        with opened(SHOP, Path(place) / "shop.db") as program, studio(program.file, browser) as screens:
            for way in WAYS:
                for name, address in SCREENS.items():
                    with screens.page(way) as page:
                        screens.open(page, address)
                        _settled(page)
                        made.append(folder / f"studio-{name}-{way.theme}.png")
                        page.screenshot(path=made[-1])
        browser.close()
    return made


def _settled(page: Page) -> None:
    """Fonts and layout are there; nothing moves."""
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(500)


def main() -> None:
    """Write the pictures, and name them."""
    os.chdir(ROOT)
    for path in draw():
        print(f"{path.relative_to(ROOT)}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
