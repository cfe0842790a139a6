//! Sends any request so that its effects are undone.

use csi_harness::prelude::*;
use csi_harness::protocol::rpc::{Facts, Resource};
use csi_proto::reflect::prost_reflect::DynamicMessage;
use csi_proto::{Rpc, redact, reflect};
use futures_util::future::BoxFuture;
use serde_json::Value;

/// Sends the bytes of a request once, unchanged. Its effects are undone with the scope: if the request can be
/// decoded, it is in the ledger before it is sent. If it has parts that we cannot decode and still succeeds, it is
/// sent once more without them; an idempotent driver then returns the object.
pub fn send<'a>(cx: &'a Cx, rpc: Rpc, bytes: &'a [u8]) -> BoxFuture<'a, Answer<Value>> {
    Box::pin(async move {
        if let Some(answer) = noted(cx, rpc, bytes, Reading::Exact).await {
            return answer;
        }
        let reply = cx.call_bytes(rpc, bytes.to_vec()).await;
        let answer = reply.answer().as_ref().map(|bytes| response(rpc, bytes));
        if let Answer::Ok(_) = &answer {
            // The answer does not matter.
            let _ = noted(cx, rpc, bytes, Reading::AsFarAsKnown).await;
        }
        answer
    })
}

/// Says how much of the bytes must be decodable.
#[derive(Clone, Copy, PartialEq)]
enum Reading {
    /// All fields must be known.
    Exact,
    /// Unknown fields are ignored.
    AsFarAsKnown,
}

/// Sends a request that makes an object through the ledger; returns `None` if the request makes none.
async fn noted(cx: &Cx, rpc: Rpc, bytes: &[u8], reading: Reading) -> Option<Answer<Value>> {
    Some(match Facts::of(rpc)?.makes()? {
        Resource::Volume => as_json(cx.create_volume(read(bytes, reading)?).once().await),
        Resource::Snapshot => as_json(cx.create_snapshot(read(bytes, reading)?).once().await),
        Resource::GroupSnapshot => as_json(cx.create_group_snapshot(read(bytes, reading)?).once().await),
        Resource::Attachment => as_json(cx.controller_publish(read(bytes, reading)?).once().await),
        Resource::Staging => as_json(cx.node_stage(read(bytes, reading)?).once().await),
        Resource::Publication => as_json(cx.node_publish_hostile(read(bytes, reading)?).once().await),
    })
}

fn read<M: prost::Message + Default>(bytes: &[u8], reading: Reading) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    (reading == Reading::AsFarAsKnown || message.encoded_len() == bytes.len()).then_some(message)
}

fn as_json<M: prost::Name>(reply: Reply<M>) -> Answer<Value> {
    reply.answer().as_ref().map(|message| redact::json(message))
}

/// Returns a response as JSON, or null if it cannot be decoded.
fn response(rpc: Rpc, bytes: &[u8]) -> Value {
    let form = reflect::response_of(rpc);
    let read = form.and_then(|form| DynamicMessage::decode(form, bytes).ok());
    read.map(redact::dynamic).unwrap_or_default()
}
