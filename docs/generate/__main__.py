"""`python -m docs.generate`: writes docs/commands, docs/reference and the table of licences.

With `transcripts` it writes what the commands of all pages print, with `schemas` the schemas of Kubernetes' kinds that
come with the package, with `diagrams` the images in docs/diagrams, with `picture` the pictures of the screen of
`ssa-operator dev` and of the web view, and with `recording` the session that makes an operator of a chart.
"""

from __future__ import annotations

import argparse
import asyncio

from docs.generate import (
    command_pages,
    diagrams,
    licences,
    picture,
    recording,
    reference_pages,
    schemas,
    screenshots,
    transcripts,
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.add_argument("part", choices=("commands", "diagrams", "picture", "recording", "schemas", "transcripts"))
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
    command_pages.write()
    reference_pages.write()
    licences.write()


if __name__ == "__main__":
    main()
