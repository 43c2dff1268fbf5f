"""The scripts of the Jobs, run by a real shell with a curl and an mc that answer from a list."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.neon.fake_ready_cluster import BRANCH_ID, ID, Stage, container, made, made_branch

CURL = """#!/bin/sh
printf '%s\\n' "$@" "" >> "$HERE/asked"
read -r code < "$HERE/answers"
sed -i 1d "$HERE/answers"
[ "$code" != none ] || exit 7
printf '%s' "$code"
"""


def ask(component: str, folder: Path, *answers: str, stage: Stage | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script of a Job in which `curl` gives these answers, `none` for none, and `sleep` takes no time."""
    for name, text in {"curl": CURL, "sleep": "#!/bin/sh\n", "cat": "#!/bin/sh\necho the answer\n"}.items():
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    (folder / "answers").write_text("".join(f"{answer}\n" for answer in answers))
    job = container(made() if stage is None else stage, component)
    told = {each["name"]: each["value"] for each in job["env"]}
    environment = {**told, "HERE": str(folder), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    shell = shutil.which("sh")
    assert shell is not None
    return subprocess.run(
        [shell, *job["command"][1:], *job["args"]], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.more_cases
@pytest.mark.parametrize("component", ["tenant", "timeline"])
@pytest.mark.parametrize(
    "answers",
    [("200",), ("201",), ("503", "none", "429", "500", "404", "201"), (*["404"] * 29, "503", *["404"] * 29, "201")],
)
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


@pytest.mark.parametrize("component", ["tenant", "timeline"])
def test_a_pageserver_that_lost_its_volume_fails_the_job_after_a_minute_and_it_says_why(
    component: str, tmp_path: Path
) -> None:
    done = ask(component, tmp_path, *["404"] * 31)
    assert done.returncode == 1
    assert (tmp_path / "answers").read_text() == "404\n"
    last = done.stdout.splitlines()[-1]
    assert "does not have what this request is about" in last
    assert "delete the Job of the tenant" in last
    # The kubelet shows the end of the log in the status of the pod.
    assert container(made(), component)["terminationMessagePolicy"] == "FallbackToLogsOnError"


PAGESERVER = f"http://db-pageserver:9898/v1/tenant/{ID}/timeline/{BRANCH_ID}"
SAFEKEEPERS = [
    f"http://db-safekeeper-{number}.db-safekeeper.n.svc:7676/v1/tenant/{ID}/timeline/{BRANCH_ID}"
    for number in (1, 2, 3)
]


def deletion() -> Stage:
    """A branch that is being deleted, with its finalize hook."""
    stage = made_branch()
    stage.parent["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return stage


def test_the_timeline_of_a_branch_is_deleted_from_the_pageserver_and_then_from_the_safekeepers(tmp_path: Path) -> None:
    # 409 and 202: the pageserver deletes in the background. 412: another branch has this one as its ancestor.
    answers = ("412", "202", "409", "none", "404", "200", "503", "404", "200")
    done = ask("deletion", tmp_path, *answers, stage=deletion())
    assert (done.returncode, done.stderr) == (0, "")
    asked = [line.rpartition(":")[0] for line in done.stdout.splitlines() if line.startswith("DELETE")]
    first, second, third = SAFEKEEPERS
    assert asked == [f"DELETE {url}" for url in [PAGESERVER] * 5 + [first, second, second, third]]
    assert (tmp_path / "answers").read_text() == ""
    words = (tmp_path / "asked").read_text().splitlines()
    assert words[words.index("--request") + 1] == "DELETE"


@pytest.mark.parametrize("answer", ["400", "401", "403"])
def test_a_deletion_that_is_refused_for_good_fails_with_the_answer(answer: str, tmp_path: Path) -> None:
    done = ask("deletion", tmp_path, answer, "404", stage=deletion())
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
