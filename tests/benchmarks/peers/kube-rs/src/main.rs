//! The Echo operator as kube-rs's own examples write one: a Controller that owns what it applies.
//!
//! REQUEUE_SECONDS: after how long every Echo is looked at again, 0 for never.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Service},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, CustomResource, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        controller::{Action, Controller},
        predicates, reflector, watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const MANAGER: &str = "echo-kube-rs";

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "bench.example.com", version = "v1", kind = "Echo", plural = "echoes", namespaced)]
#[kube(status = "EchoStatus")]
struct EchoSpec {
    replicas: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
struct EchoStatus {
    observed_generation: Option<i64>,
    replicas: Option<i32>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

struct Context {
    client: Client,
    requeue: Action,
}

fn deployment(echo: &Echo, owner: &OwnerReference) -> Result<Deployment, serde_json::Error> {
    let name = echo.name_any();
    let labels = BTreeMap::from([("app", &name)]);
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "replicas": echo.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "echo",
                    "image": "inanimate/echo-server:latest",
                    "env": [{"name": "PORT", "value": "8080"}],
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                }]},
            },
        },
    }))
}

fn service(echo: &Echo, owner: &OwnerReference) -> Result<Service, serde_json::Error> {
    let name = echo.name_any();
    let labels = BTreeMap::from([("app", &name)]);
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }))
}

async fn reconcile(echo: Arc<Echo>, context: Arc<Context>) -> Result<Action, Error> {
    let Some(owner) = echo.controller_owner_ref(&()) else {
        return Ok(Action::await_change());
    };
    let (name, namespace) = (echo.name_any(), echo.namespace().unwrap_or_default());
    let client = &context.client;
    let apply = PatchParams::apply(MANAGER).force();
    let deployments = Api::<Deployment>::namespaced(client.clone(), &namespace);
    let made = deployments.patch(&name, &apply, &Patch::Apply(deployment(&echo, &owner)?)).await?;
    let services = Api::<Service>::namespaced(client.clone(), &namespace);
    services.patch(&name, &apply, &Patch::Apply(service(&echo, &owner)?)).await?;

    let status = EchoStatus {
        observed_generation: echo.meta().generation,
        replicas: made.spec.replicas,
    };
    if echo.status.as_ref() != Some(&status) {
        let body = json!({"apiVersion": Echo::api_version(&()), "kind": Echo::kind(&()), "status": status});
        let echoes = Api::<Echo>::namespaced(client.clone(), &namespace);
        echoes.patch_status(&name, &apply, &Patch::Apply(body)).await?;
    }
    Ok(context.requeue.clone())
}

fn on_error(_: Arc<Echo>, error: &Error, _: Arc<Context>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(1))
}

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let seconds = std::env::var("REQUEUE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let requeue = if seconds > 0 { Action::requeue(Duration::from_secs(seconds)) } else { Action::await_change() };
    let client = Client::try_default().await?;
    let (reader, writer) = reflector::store();
    let echoes = watcher(Api::<Echo>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());
    Controller::for_stream(echoes, reader)
        .owns(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .owns(Api::<Service>::all(client.clone()), watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, on_error, Arc::new(Context { client, requeue }))
        .for_each(|_| futures::future::ready(()))
        .await;
    Ok(())
}
