"""Write the manual's pictures: ``python -m tests.manual_pictures``."""

from __future__ import annotations

import sys

from tests.manual_pictures.every_picture import FOLDER, drawn, every_picture


def main() -> None:
    """Write all pictures and say what each takes."""
    FOLDER.mkdir(exist_ok=True)
    for picture in every_picture():
        text = drawn(picture)
        (FOLDER / picture.file).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{picture.file}: {len(text.encode()):,} bytes\n")


if __name__ == "__main__":
    main()
