"""The templates folder: files appear, change, fail to load and disappear."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import pytest

from ssa_operator.objects.cluster_view import OFFLINE
from ssa_operator.rendering.folder import contained_files
from ssa_operator.rendering.folder import folder_snapshot as reading
from ssa_operator.rendering.folder.folder_settings import Settings
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load, load_all
from ssa_operator.rendering.render import render, render_status
from tests.rendering.template_files import HEAD, parent

ECHOES = "echoes.example.com"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def echoes(sources: Sources) -> Folder:
    return sources.folders[ECHOES]


def problems(sources: Sources) -> list[str]:
    return [str(problem) for problem in sources.problems]


def rendered_values(folder: Folder) -> list[object]:
    assert folder.templates is not None
    return [document.body["v"] for document in render(folder.templates, parent({"x": 1})).documents]


def test_nothing_remembers_templates_that_were_saved_anew(tmp_path: Path) -> None:
    """Otherwise each save would cost the operator memory."""
    write(
        tmp_path,
        {f"{ECHOES}/a.yaml.j2": HEAD + "v: {{ lookup('v1', 'ConfigMap', 'a', optional=true).x | default(1) }}"},
    )
    old = load(tmp_path)
    assert rendered_values(echoes(old)) == [1]
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + "v: 2"})
    assert rendered_values(echoes(load(tmp_path, old))) == [2]
    templates = weakref.ref(echoes(old).templates)
    del old
    gc.collect()
    assert templates() is None


def test_the_name_of_a_folder_says_which_resource_it_is_for(tmp_path: Path) -> None:
    for name in (ECHOES, "namespaces", "deployments.apps", "_shared", "_drafts", ".git"):
        write(tmp_path, {f"{name}/a.yaml": HEAD})
    sources = load(tmp_path)
    assert [(folder.resource, folder.group) for folder in sources.folders.values()] == [
        ("deployments", "apps"),
        ("echoes", "example.com"),
        ("namespaces", ""),
    ]
    assert list(sources.folders) == [folder.name for folder in sources.folders.values()]
    assert sources.problems == ()


def test_the_folder_of_a_resource_is_no_templates_folder(tmp_path: Path) -> None:
    write(tmp_path / ECHOES, {"a.yaml.j2": "{}"})
    words = (
        f"a.yaml.j2:1: a.yaml.j2 is in no resource's folder; name the folder that has {ECHOES} as the templates folder"
    )
    assert problems(load_all([tmp_path / ECHOES])) == [words]


def test_names_that_mean_nothing_are_problems_that_say_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, {"Echo/a.yaml": HEAD, "lost.yaml.j2": HEAD, "README.md": "x", f"{ECHOES}/a.yaml": HEAD})
    assert problems(load(tmp_path)) == [
        "lost.yaml.j2:1: lost.yaml.j2 is in no resource's folder; move it to <plural>.<group>/ or to _shared/",
        "Echo/a.yaml:1: Echo is not the name of a resource; call the folder <plural>.<group>",
    ]


def test_which_files_are_manifests(tmp_path: Path) -> None:
    manifests = ("a.yaml", "b.yml", "c.yaml.j2", "d.yml.j2", "deep/er/e.yaml")
    others = (
        "_f.yaml",
        "_g.yaml.j2",
        "_dir/h.yaml",
        "i.j2",
        "j.txt",
        ".k.yaml",
        ".l/m.yaml",
        "n.yaml~",
        ".o.yaml.swp",
        "#p.yaml#",
    )
    write(tmp_path, {f"{ECHOES}/{name}": HEAD + f"v: {name[0]}\n" for name in (*manifests, *others)})
    assert sorted(map(str, rendered_values(echoes(load(tmp_path))))) == ["a", "b", "c", "d", "d"]


def test_files_are_rendered_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = ("b.yaml", "a/z.yaml", "c.yaml.j2", "a.yaml")
    write(tmp_path, {f"{ECHOES}/{name}": HEAD + f"v: {name}\n" for name in names})
    assert rendered_values(echoes(load(tmp_path))) == ["a.yaml", "a/z.yaml", "b.yaml", "c.yaml.j2"]


def test_a_folder_that_breaks_keeps_its_last_good_templates_and_the_others_change(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + "v: 1\n", "others.example.com/a.yaml.j2": HEAD + "v: 1\n"})
    good = load(tmp_path)
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + "v: {{ x\n", "others.example.com/a.yaml.j2": HEAD + "v: 2\n"})
    broken = load(tmp_path, good)
    assert [str(problem).partition(",")[0] for problem in echoes(broken).problems] == [
        f"{ECHOES}/a.yaml.j2:5: unexpected end of template"
    ]
    assert echoes(broken).templates is echoes(good).templates
    assert echoes(broken).digest == echoes(good).digest
    assert rendered_values(echoes(broken)) == [1]
    assert [problem.outdated for problem in render(echoes(broken), {}).problems] == [True]
    assert rendered_values(broken.folders["others.example.com"]) == [2]
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + "v: 3\n"})
    repaired = load(tmp_path, broken)
    assert echoes(repaired).problems == ()
    assert rendered_values(echoes(repaired)) == [3]


def test_every_render_reports_a_folder_that_failed_to_load(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD})
    good = load(tmp_path)
    write(tmp_path, {f"{ECHOES}/b.yaml.j2": "{% if"})
    result = render(echoes(load(tmp_path, good)), parent())
    assert len(result.documents) == 1
    assert not result.complete
    never_good = render(echoes(load(tmp_path)), parent())
    assert (never_good.documents, never_good.complete) == ((), False)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.yaml": "a: ["}, "a.yaml:1: did not find expected node content"),
        ({"a.yaml": HEAD, "_settings.yaml": "interval: 5\n"}, "_settings.yaml:1: interval: '5' is not a duration"),
        ({"a.yaml": HEAD, "_settings.yaml": "\ninterval: 0s\n"}, "_settings.yaml:2: interval must be longer than 0"),
        ({"a.yaml": HEAD, "_settings.yaml": "Interval: 5s\n"}, "_settings.yaml:1: Interval is not a setting; did"),
        ({"a.yaml": HEAD, "_settings.yaml": "zzz: 1\n"}, "_settings.yaml:1: zzz is not a setting; known are"),
        ({"a.yaml": HEAD, "_settings.yaml": "clusterScope: yes\n"}, "_settings.yaml:1: clusterScope must be true"),
        ({"a.yaml": HEAD, "_settings.yaml": "maxChildren: 0\n"}, "_settings.yaml:1: maxChildren must be a"),
        ({"a.yaml": HEAD, "_settings.yaml": "adopt: Sometimes\n"}, "_settings.yaml:1: adopt must be Always"),
        ({"a.yaml": HEAD, "_settings.yaml": "maxChildren: yes\n"}, "_settings.yaml:1: maxChildren must be a"),
        ({"a.yaml": HEAD, "_settings.yaml": "maxDepth: 0\n"}, "_settings.yaml:1: maxDepth must be a"),
        ({"a.yaml": HEAD, "_settings.yaml": "\nrenderLimit: 31s\n"}, "_settings.yaml:2: renderLimit must be at most"),
        ({"a.yaml": HEAD, "_settings.yaml": "renderLimit: 0s\n"}, "_settings.yaml:1: renderLimit must be longer"),
        ({"a.yaml": HEAD, "_settings.yaml": "renderLimit: 5\n"}, "_settings.yaml:1: renderLimit: '5' is not a dur"),
        ({"a.yaml": HEAD, "_settings.yaml": "formerManagers: helm\n"}, "_settings.yaml:1: formerManagers must be a"),
        (
            {"a.yaml": HEAD, "_settings.yaml": "formerManagers: [ssa-operator]\n"},
            "_settings.yaml:1: formerManagers: ssa-operator is the operator itself",
        ),
        ({"a.yaml": HEAD, "_settings.yaml": "version: 1\n"}, "_settings.yaml:1: version must be a name such as v1"),
        ({"a.yaml": HEAD, "_settings.yaml": "suspendWhen: true\n"}, "_settings.yaml:1: suspendWhen must be an expres"),
        (
            {"a.yaml": HEAD, "_settings.yaml": "version: v1\nsuspendWhen: spec.x =\n"},
            "_settings.yaml:2: suspendWhen is no valid expression",
        ),
        (
            {"a.yaml": HEAD, "_settings.yaml": "suspendWhen: \"lookup('v1', 'Secret', 'x')\"\n"},
            "_settings.yaml:1: suspendWhen calls lookup, which queries the cluster",
        ),
        ({"a.yaml": HEAD, "_settings.yaml": "- a\n"}, "_settings.yaml:1: settings are a mapping of interval"),
        ({"a.yaml": HEAD, "_settings.yaml": "a: [\n"}, "_settings.yaml:1: did not find"),
        ({"a.yaml": HEAD, "_settings.yaml": "---\na: 1\n---\nb: 1\n"}, "_settings.yaml:4: there may be only one docum"),
        ({"a.yaml": HEAD, "_settings.yml": ""}, "_settings.yml:1: _settings.yml is not read; call it _settings.yaml"),
        ({"a.yaml": HEAD, "_status.yaml": ""}, "_status.yaml:1: _status.yaml is not read; call it _status.yaml.j2"),
        ({"a.yaml": HEAD, "_macros.yaml.j2": "{% if"}, "_macros.yaml.j2:1: "),
        ({"deployment.j2": HEAD}, "deployment.j2:1: echoes.example.com has no templates; call deployment.j2 d"),
        ({"_macros.yaml.j2": "x"}, " has no templates; add one, or remove the folder"),
    ],
)  # fmt: skip
def test_a_load_that_fails_names_the_line_and_what_to_do(tmp_path: Path, files: dict[str, str], message: str) -> None:
    write(tmp_path, {f"{ECHOES}/{name}": text for name, text in files.items()})
    folder = echoes(load(tmp_path))
    (problem,) = folder.problems
    assert str(problem).startswith(f"{ECHOES}{message}" if message[0] == " " else f"{ECHOES}/{message}")
    assert folder.templates is None


def test_manifests_in_json_are_rendered_as_those_in_yaml_are(tmp_path: Path) -> None:
    text = '{\n\t"apiVersion": "v1",\n\t"kind": "ConfigMap",\n\t"metadata": {"name": "NAME"},\n\t"v": VALUE\n}\n'
    one, two = text.replace("NAME", "a").replace("VALUE", "1"), text.replace("VALUE", '{{ [2, "a"] }}')
    write(tmp_path, {f"{ECHOES}/a.json": one, f"{ECHOES}/b.json.j2": two.replace("NAME", "{{ name }}")})
    assert rendered_values(echoes(load(tmp_path))) == [1, [2, "a"]]


def test_a_folder_that_lost_all_of_its_templates_keeps_the_last_good_ones(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + "v: 1\n", f"{ECHOES}/_settings.yaml": "interval: 5s"})
    good = load(tmp_path)
    (tmp_path / ECHOES / "a.yaml.j2").unlink()
    lost = load(tmp_path, good)
    assert "has no templates" in str(echoes(lost).problems[0])
    assert rendered_values(echoes(lost)) == [1]
    assert echoes(lost).settings.interval == 5


def test_a_folder_may_hold_a_status_template_alone(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/_status.yaml.j2": "url: http://{{ name }}\n"})
    folder = echoes(load(tmp_path))
    assert (folder.problems, render(folder, parent()).documents) == ((), ())
    assert render_status(folder, parent(), OFFLINE).fields == {"url": "http://e"}
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + "v: 1\n"})
    more = load(tmp_path)
    (tmp_path / ECHOES / "a.yaml.j2").unlink()
    lost = load(tmp_path, more)
    assert "has no templates" in str(echoes(lost).problems[0])
    assert rendered_values(echoes(lost)) == [1]


LOOP = "{% for a in range(90000) %}{% for b in range(a) %}{% endfor %}{% endfor %}\n"


def test_the_settings_bound_the_time_of_a_template(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + LOOP, f"{ECHOES}/_settings.yaml": "renderLimit: 10ms\n"})
    (found,) = render(echoes(load(tmp_path)), parent()).problems
    assert str(found) == (
        f"{ECHOES}/a.yaml.j2:5: rendering takes longer than 0.01 seconds; look for a loop that is too long"
    )


def test_a_longer_limit_allows_more_work(tmp_path: Path) -> None:
    text = HEAD + "{% for a in range(1500) %}{% set x = 'x' * 50000 %}{% endfor %}\nv: 1\n"
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": text})
    assert "too much work" in str(render(echoes(load(tmp_path)), parent()).problems[0])
    write(tmp_path, {f"{ECHOES}/_settings.yaml": "renderLimit: 5s\n"})
    assert rendered_values(echoes(load(tmp_path))) == [1]


def test_a_wrong_expression_keeps_the_last_good_settings(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD, f"{ECHOES}/_settings.yaml": "suspendWhen: spec.paused\n"})
    good = load(tmp_path)
    write(tmp_path, {f"{ECHOES}/_settings.yaml": "suspendWhen: spec.paused |\n"})
    bad = echoes(load(tmp_path, good))
    assert len(bad.problems) == 1
    assert bad.settings.suspend_when is not None
    assert bad.settings.suspend_when.text == "spec.paused"


def test_settings(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD})
    assert echoes(load(tmp_path)).settings == Settings(interval=None, version=None, cluster_scope=False)
    text = "interval: 1m30s\nversion: v1beta1\nclusterScope: true\nformerManagers: [helm]\n"
    write(tmp_path, {f"{ECHOES}/_settings.yaml": text})
    assert echoes(load(tmp_path)).settings == Settings(
        interval=90.0, version="v1beta1", cluster_scope=True, former_managers=frozenset({"helm"})
    )
    write(tmp_path, {f"{ECHOES}/_settings.yaml": "# nothing yet\n"})
    assert echoes(load(tmp_path)).settings == Settings()


def test_what_did_not_change_is_not_compiled_again(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD, "others/a.yaml.j2": HEAD})
    first = load(tmp_path)
    write(tmp_path, {"others/a.yaml.j2": HEAD + "v: 1\n"})
    second = load(tmp_path, first)
    assert echoes(second) is echoes(first)
    assert second.folders["others"].templates is not first.folders["others"].templates


def test_the_digest_names_everything_that_a_folder_can_import(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD, "_shared/s.yaml.j2": "x", "others/a.yaml": HEAD})
    first = load(tmp_path)
    assert echoes(load(tmp_path)).digest == echoes(first).digest
    assert len(echoes(first).digest) == 64
    write(tmp_path, {"others/a.yaml": HEAD + "v: 1\n"})
    assert echoes(load(tmp_path)).digest == echoes(first).digest
    write(tmp_path, {"_shared/s.yaml.j2": "y"})
    second = load(tmp_path)
    assert echoes(second).digest != echoes(first).digest
    (tmp_path / ECHOES / "a.yaml").rename(tmp_path / ECHOES / "b.yaml")
    assert echoes(load(tmp_path)).digest != echoes(second).digest


def test_a_broken_shared_file_breaks_only_the_folders_that_use_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "_shared/s.yaml.j2": "{% if",
            f"{ECHOES}/a.yaml.j2": "{% include '_m.yaml.j2' %}",
            f"{ECHOES}/_m.yaml.j2": "{% include '_shared/s.yaml.j2' %}",
            "others/a.yaml.j2": HEAD,
        },
    )
    sources = load(tmp_path)
    assert str(echoes(sources).problems[0]).startswith("_shared/s.yaml.j2:1: ")
    assert sources.folders["others"].problems == ()


def test_a_removed_folder_is_gone(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD, "others/a.yaml": HEAD})
    good = load(tmp_path)
    (tmp_path / "others" / "a.yaml").unlink()
    (tmp_path / "others").rmdir()
    assert list(load(tmp_path, good).folders) == [ECHOES]


def test_without_the_templates_folder_everything_stays_as_it_was(tmp_path: Path) -> None:
    root = tmp_path / "templates"
    assert load(root).folders == {}
    assert problems(load(root)) == [f"the templates folder {root} does not exist; create it"]
    write(root, {f"{ECHOES}/a.yaml": HEAD})
    good = load(root)
    root.rename(tmp_path / "elsewhere")
    gone = load(root, good)
    assert gone.folders == good.folders
    assert len(gone.problems) == 1
    root.write_text("a file")
    assert "can't be read" in problems(load(root))[0]


def test_files_that_can_not_be_read_are_problems_of_their_folder(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD, "others/a.yaml": HEAD})
    (tmp_path / ECHOES / "b.yaml").write_bytes(b"a: 1\nb: \xff\n")
    (tmp_path / ECHOES / "c.yaml").symlink_to("nowhere")
    (tmp_path / ECHOES / "d.yaml").write_bytes(b" " * (4 * 2**20))
    os.mkfifo(tmp_path / ECHOES / "e.yaml")
    sources = load(tmp_path)
    assert [str(problem) for problem in echoes(sources).problems] == [
        f"{ECHOES}/b.yaml:2: the file is not UTF-8 text; save it as UTF-8",
        f"{ECHOES}/c.yaml:1: the file can't be read: No such file or directory",
        f"{ECHOES}/d.yaml:1: the file is larger than 3 MiB; no template needs to be",
        f"{ECHOES}/e.yaml:1: the file can't be read: it is a FIFO; only regular files are read and written",
    ]
    assert sources.folders["others"].problems == ()


def test_a_byte_order_mark_and_windows_line_ends_are_read_over(tmp_path: Path) -> None:
    (tmp_path / ECHOES).mkdir()
    text = "\ufeff" + (HEAD + "v: |\n  a\n  {% if true %}\n  b\n  {% endif %}\n").replace("\n", "\r\n")
    (tmp_path / ECHOES / "a.yaml.j2").write_bytes(text.encode())
    assert rendered_values(echoes(load(tmp_path))) == ["a\nb\n"]


def config_map_mount(folder: Path, version: str, files: dict[str, str]) -> None:
    """Lay files out as the kubelet does, and swap the link to them."""
    write(folder / f"..{version}", files)
    (folder / "..data_tmp").symlink_to(f"..{version}")
    (folder / "..data_tmp").rename(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def test_a_mounted_config_map_is_read_through_its_links(tmp_path: Path) -> None:
    config_map_mount(tmp_path / ECHOES, "2026_1", {"a.yaml.j2": HEAD + "v: 1\n"})
    first = load(tmp_path)
    assert rendered_values(echoes(first)) == [1]
    config_map_mount(tmp_path / ECHOES, "2026_2", {"a.yaml.j2": HEAD + "v: 2\n"})
    assert rendered_values(echoes(load(tmp_path, first))) == [2]


def test_a_swap_while_it_is_read_gives_one_version_and_never_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_map_mount(tmp_path / ECHOES, "2026_1", {"a.yaml": HEAD + "v: 1\n", "b.yaml": HEAD + "v: 1\n"})
    read_bytes = contained_files.read_bytes

    def swapping(path: Path, within: Path, limit: int) -> bytes:
        if path.name == "b.yaml" and not (tmp_path / ECHOES / "..2026_2").exists():
            config_map_mount(tmp_path / ECHOES, "2026_2", {"a.yaml": HEAD + "v: 2\n", "b.yaml": HEAD + "v: 2\n"})
        return read_bytes(path, within, limit)

    monkeypatch.setattr(reading, "read_bytes", swapping)
    assert rendered_values(echoes(load(tmp_path))) == [2, 2]


def test_a_folder_that_never_stops_changing_keeps_its_previous_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD})
    good = load(tmp_path)
    read_bytes = contained_files.read_bytes

    def changing(path: Path, within: Path, limit: int) -> bytes:
        encoded = read_bytes(path, within, limit)
        path.write_bytes(encoded + b"#")
        return encoded

    monkeypatch.setattr(reading, "read_bytes", changing)
    unsteady = load(tmp_path, good)
    assert unsteady.folders == good.folders
    assert "changes while it is read" in problems(unsteady)[0]
    with pytest.raises(reading.FolderChangingError):
        reading.read_snapshot(tmp_path)


def test_links_in_a_circle_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/deep/a.yaml": HEAD + "v: 1\n"})
    (tmp_path / ECHOES / "deep" / "again").symlink_to(tmp_path / ECHOES)
    (tmp_path / ECHOES / "self").symlink_to(".")
    assert rendered_values(echoes(load(tmp_path))) == [1]


def test_several_templates_folders_make_one_operator(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for root in (one, other):
        write(root, {"_shared/v.j2": root.name})
    text = HEAD + "v: {% include '_shared/v.j2' %}\n"
    write(one, {f"{ECHOES}/a.yaml.j2": text})
    write(other, {"gadgets/a.yaml.j2": text, "stray.yaml": ""})
    sources = load_all([one, other, one])
    assert {name: rendered_values(folder) for name, folder in sources.folders.items()} == {
        ECHOES: ["one"],
        "gadgets": ["other"],
    }
    (problem,) = problems(sources)
    assert problem.startswith(f"stray.yaml:1: {other}: stray.yaml is in no resource's folder")
    (other / "gadgets" / "a.yaml.j2").write_text(HEAD + "v: 2\n")
    again = load_all([one, other], sources)
    assert echoes(again) is echoes(sources)
    assert rendered_values(again.folders["gadgets"]) == [2]


def test_a_resource_with_two_folders_keeps_the_one_it_had_until_one_goes(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write(one, {f"{ECHOES}/a.yaml": HEAD + "v: 1\n"})
    write(other, {"gadgets/a.yaml": HEAD})
    good = load_all([one, other])
    write(other, {f"{ECHOES}/a.yaml": HEAD + "v: 2\n"})
    claimed = load_all([one, other], good)
    said = f"{ECHOES} has a folder in {one} and one in {other}; remove one of them"
    assert [str(problem) for problem in echoes(claimed).problems] == [said]
    assert rendered_values(echoes(claimed)) == [1]
    assert claimed.folders["gadgets"] is good.folders["gadgets"]
    never_good = echoes(load_all([one, other]))
    assert (never_good.templates, [str(problem) for problem in never_good.problems]) == (None, [said])
    (one / ECHOES / "a.yaml").unlink()
    (one / ECHOES).rmdir()
    moved = load_all([one, other], claimed)
    assert (rendered_values(echoes(moved)), echoes(moved).problems) == ([2], ())


def test_a_templates_folder_that_vanishes_leaves_the_others_alone(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write(one, {f"{ECHOES}/a.yaml": HEAD + "v: 1\n"})
    write(other, {"gadgets/a.yaml": HEAD})
    good = load_all([one, other])
    one.rename(tmp_path / "elsewhere")
    gone = load_all([one, other], good)
    assert gone.folders == good.folders
    assert problems(gone) == [f"{one}: the templates folder {one} does not exist; create it"]


@pytest.mark.parametrize(
    "name", ["b.yaml.j2", "b.yml.j2", "_status.yaml.j2", "_macros.j2", "static.yaml", "more/b.yaml"]
)
def test_a_folder_in_the_place_of_a_template_is_no_removed_template(tmp_path: Path, name: str) -> None:
    """A container's mount of a file that doesn't exist makes a folder."""
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + "v: 1"})
    (tmp_path / ECHOES / name).mkdir(parents=True)
    (problem,) = echoes(load(tmp_path)).problems
    assert str(problem).startswith(f"{ECHOES}/{name}:1: this is a folder and no file; ")


def test_a_folder_below_the_files_that_templates_read_may_have_any_name(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml.j2": HEAD + "v: 1", f"{ECHOES}/files/a.yaml/b": "x"})
    assert echoes(load(tmp_path)).problems == ()
