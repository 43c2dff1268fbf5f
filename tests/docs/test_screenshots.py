"""The pictures of the web view are there, small, and shown by the page about it."""

from __future__ import annotations

from docs.generate.screenshots import FOLDER, LARGEST, SHOTS


def test_each_picture_of_the_web_view_is_small_and_shown() -> None:
    shown = (FOLDER / "web-view.md").read_text(encoding="utf-8")
    for name in SHOTS:
        picture = (FOLDER / name).read_bytes()
        assert picture.startswith(b"\x89PNG"), name
        assert len(picture) <= LARGEST, name
        assert f"]({name})" in shown, name
    assert {path.name for path in FOLDER.glob("*.png")} == SHOTS.keys()
    assert "](docs/web-parent.png)" in (FOLDER.parent / "README.md").read_text(encoding="utf-8")
