"""`python -m docs.generate PART` writes what a program makes and git has: `transcripts` what the commands of all pages
print, `schemas` the schemas of Kubernetes' kinds that come with the package, `diagrams` the images in docs/diagrams,
`picture` the screen of `ssa-operator dev` and the web view, and `recording` how a chart becomes an operator.
"""

from __future__ import annotations

import argparse
import asyncio

from docs.generate import diagrams, picture, recording, schemas, screenshots, transcripts


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.add_argument("part", choices=("diagrams", "picture", "recording", "schemas", "transcripts"))
    parser.add_argument("pages", nargs="*", help="pages of transcripts (default: all that have commands)")
    options = parser.parse_args()
    if options.part == "diagrams":
        diagrams.write()
        return
    if options.part == "schemas":
        print(f"{asyncio.run(schemas.write_schemas()).relative_to(transcripts.ROOT)} is written")
        return
    if options.part == "picture":
        picture.write(asyncio.run(picture.taken()))
        screenshots.write(asyncio.run(screenshots.taken()))
        for path in (picture.PICTURE, *(screenshots.FOLDER / name for name in screenshots.SHOTS)):
            print(f"{path.relative_to(transcripts.ROOT)} is written")
        return
    if options.part == "recording":
        recording.write(recording.taken())
        print(f"{recording.RECORDING.relative_to(transcripts.ROOT)} is written")
        return
    if options.part == "transcripts":
        for page, text in asyncio.run(transcripts.made_again(options.pages)):
            page.write_text(text, encoding="utf-8")
            print(f"{page.relative_to(transcripts.ROOT)} has changed")


if __name__ == "__main__":
    main()
