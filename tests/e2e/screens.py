"""`make screens`: every page in light, dark, on a phone (both) and wide, as pictures in a folder, to be looked at."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.e2e.house import CHROMIUM, House, chromium, open_house

LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1440, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1440, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
    "phone-dark": {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
    "wide": {"color_scheme": "light", "viewport": {"width": 2560, "height": 1300}},
}


def take(house: House, to: Path, role: str, names: list[str], looks: list[str]) -> int:
    taken = 0
    with chromium() as browser:
        for look in looks:
            with house.context(browser, role, **LOOKS[look]) as context:
                page = context.new_page()
                for name, address in house.pages(role).items():
                    if names and name not in names:
                        continue
                    page.goto(house.url + address, wait_until="load")
                    page.wait_for_timeout(400)  # charts are drawn
                    page.screenshot(path=to / f"{name}-{look}.png", full_page=True)
                    taken += 1
    return taken


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.e2e.screens")
    asked.add_argument("--to", type=Path, default=Path("test-results/screens"))
    asked.add_argument("--role", default="admin")
    asked.add_argument("--page", nargs="*", default=[])
    asked.add_argument("--look", nargs="*", default=list(LOOKS), choices=list(LOOKS))
    options = asked.parse_args()
    if not CHROMIUM:
        print("make screens needs Chromium: install it, or name it in CHROMIUM", file=sys.stderr)
        return 1
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, open_house(Path(folder)) as house:
        taken = take(house, options.to, options.role, options.page, options.look)
    print(f"{taken} pictures in {options.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
