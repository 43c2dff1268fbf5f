"""The scripts of the Jobs, run by a real shell with a curl and an mc that answer from a list."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.neon.fake_ready_cluster import container, made

CURL = """#!/bin/sh
printf '%s\\n' "$@" "" >> "$HERE/asked"
read -r code < "$HERE/answers"
sed -i 1d "$HERE/answers"
[ "$code" != none ] || exit 7
printf '%s' "$code"
"""


def ask(component: str, folder: Path, *answers: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a Job in which `curl` gives these answers, `none` for none, and `sleep` takes no time."""
    for name, text in {"curl": CURL, "sleep": "#!/bin/sh\n", "cat": "#!/bin/sh\necho the answer\n"}.items():
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    (folder / "answers").write_text("".join(f"{answer}\n" for answer in answers))
    job = container(made(), component)
    told = {each["name"]: each["value"] for each in job["env"]}
    environment = {**told, "HERE": str(folder), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    shell = shutil.which("sh")
    assert shell is not None
    return subprocess.run(
        [shell, *job["command"][1:], *job["args"]], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("component", ["tenant", "timeline"])
@pytest.mark.parametrize("answers", [("200",), ("201",), ("503", "none", "429", "500", "404", "201")])
def test_a_request_is_repeated_until_it_succeeds(component: str, answers: tuple[str, ...], tmp_path: Path) -> None:
    done = ask(component, tmp_path, *answers)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].endswith(f": {answers[-1]}")
    assert (tmp_path / "answers").read_text() == ""


def test_a_tenant_that_is_busy_is_asked_again(tmp_path: Path) -> None:
    assert ask("tenant", tmp_path, "409", "200").returncode == 0


@pytest.mark.parametrize(("component", "answer"), [("timeline", "409"), ("timeline", "406"), ("tenant", "400")])
def test_a_refusal_for_good_ends_the_job_with_the_answer(component: str, answer: str, tmp_path: Path) -> None:
    done = ask(component, tmp_path, answer, "200")
    assert done.returncode == 1
    assert done.stdout.endswith("the answer\n")


def test_what_is_sent_is_what_the_job_was_told(tmp_path: Path) -> None:
    ask("timeline", tmp_path, "201")
    asked = (tmp_path / "asked").read_text().splitlines()
    told = {each["name"]: each["value"] for each in container(made(), "timeline")["env"]}
    for option, value in (("--request", told["METHOD"]), ("--data", told["BODY"])):
        assert asked[asked.index(option) + 1] == value
    assert told["URL"] in asked


MC = """#!/bin/sh
printf '%s ' "$@" >> "$HERE/asked"
echo >> "$HERE/asked"
read -r code < "$HERE/answers"
sed -i 1d "$HERE/answers"
exit "$code"
"""


def test_the_bucket_is_asked_for_until_minio_has_made_it(tmp_path: Path) -> None:
    for name, text in {"mc": MC, "sleep": "#!/bin/sh\n"}.items():
        program = tmp_path / name
        program.write_text(text)
        program.chmod(0o755)
    (tmp_path / "answers").write_text("1\n1\n0\n1\n0\n")
    job = container(made(), "bucket")
    told = {"ENDPOINT": "http://db-minio:9000", "AWS_ACCESS_KEY_ID": "neon", "AWS_SECRET_ACCESS_KEY": "a b"}
    environment = {**told, "HERE": str(tmp_path), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([*job["command"], *job["args"]], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    login = "alias set minio http://db-minio:9000 neon a b"
    make = "mb -p minio/neon --region=eu-north-1"
    asked = [line.strip() for line in (tmp_path / "asked").read_text().splitlines()]
    assert asked == [login, login, login, make, make]
