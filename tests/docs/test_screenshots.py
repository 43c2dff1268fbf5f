"""The pictures of the web view are small, and a page shows each."""

from __future__ import annotations

from docs.generate.screenshots import FOLDER, LARGEST, SHOTS


def test_each_picture_of_the_web_view_is_small_and_shown() -> None:
    shown = (FOLDER / "web-view.md").read_text(encoding="utf-8")
    pictures = sorted(FOLDER.glob("*.png"))
    assert pictures != []
    for path in pictures:
        assert path.name in SHOTS, path
        picture = path.read_bytes()
        assert picture.startswith(b"\x89PNG"), path
        assert len(picture) <= LARGEST, path
        assert f"]({path.name})" in shown, path
