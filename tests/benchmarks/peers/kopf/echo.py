"""The Echo operator as kopf's own documentation writes one, with an asynchronous HTTP client for the applies.

REQUEUE_SECONDS: after how long every Echo is looked at again, 0 for never. kopf has no owned kinds: a child's event
leads to its Echo by an index. `kopf run` uses uvloop where it is installed.
"""

import json
import os
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import yaml

GROUP, VERSION = "bench.example.com", "v1"
MANAGER = "echo-kopf"
OWNED = "bench.example.com/echo"
REQUEUE = float(os.environ.get("REQUEUE_SECONDS", "10"))


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    settings.posting.enabled = False
    settings.peering.standalone = True
    server, context = credentials(Path(os.environ["KUBECONFIG"]))
    memo.session = aiohttp.ClientSession(server, connector=aiohttp.TCPConnector(ssl=context, limit=100))


def credentials(kubeconfig: Path) -> tuple[str, ssl.SSLContext]:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as file:
        file.write(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
        file.flush()
        context.load_cert_chain(file.name)
    return cluster["server"], context


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    await memo.session.close()


async def apply(memo: kopf.Memo, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    answer = await memo.session.patch(
        path,
        params={"fieldManager": MANAGER, "force": "true"},
        data=json.dumps(body),
        headers={"Content-Type": "application/apply-patch+yaml"},
    )
    async with answer:
        if answer.status >= 300:
            raise kopf.TemporaryError(await answer.text(), delay=1)
        found: dict[str, Any] = await answer.json()
        return found


def deployment(metadata: Mapping[str, Any], replicas: int) -> dict[str, Any]:
    labels = {"app": metadata["name"]}
    container = {
        "name": "echo",
        "image": "inanimate/echo-server:latest",
        "env": [{"name": "PORT", "value": "8080"}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def service(metadata: Mapping[str, Any]) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": {"app": metadata["name"]}, "ports": ports},
    }


async def reconcile(memo: kopf.Memo, name: str, namespace: str, uid: str, replicas: int) -> int:
    """Apply both children; returns the replicas that the Deployment then has."""
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Echo", "name": name, "uid": uid}
    metadata = {
        "name": name,
        "labels": {"app": name, OWNED: name},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    made = await apply(memo, f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}", deployment(metadata, replicas))
    await apply(memo, f"/api/v1/namespaces/{namespace}/services/{name}", service(metadata))
    found: int = made["spec"]["replicas"]
    return found


@kopf.index(GROUP, VERSION, "echoes")
async def echoes(name: str, namespace: str, uid: str, spec: kopf.Spec, **_: Any) -> dict[tuple[str, str], Any]:
    return {(namespace, name): (uid, spec["replicas"])}


@kopf.on.create(GROUP, VERSION, "echoes")
@kopf.on.update(GROUP, VERSION, "echoes", field="spec")
@kopf.on.resume(GROUP, VERSION, "echoes")
async def changed(
    memo: kopf.Memo, name: str, namespace: str, uid: str, spec: kopf.Spec, meta: kopf.Meta, patch: kopf.Patch, **_: Any
) -> None:
    made = await reconcile(memo, name, namespace, uid, spec["replicas"])
    patch.status["replicas"] = made
    patch.status["observedGeneration"] = meta["generation"]


@kopf.on.event("apps", "v1", "deployments", labels={OWNED: kopf.PRESENT})
@kopf.on.event("", "v1", "services", labels={OWNED: kopf.PRESENT})
async def owned(memo: kopf.Memo, name: str, namespace: str, echoes: kopf.Index[Any, Any], **_: Any) -> None:
    for uid, replicas in echoes.get((namespace, name), ()):
        await reconcile(memo, name, namespace, uid, replicas)


if REQUEUE:

    @kopf.timer(GROUP, VERSION, "echoes", interval=REQUEUE, initial_delay=REQUEUE)
    async def tick(memo: kopf.Memo, name: str, namespace: str, uid: str, spec: kopf.Spec, **_: Any) -> None:
        await reconcile(memo, name, namespace, uid, spec["replicas"])
