//! A request of any form, sent so that whatever it makes is undone.

use csi_harness::prelude::*;
use csi_harness::protocol::rpc::{Facts, Resource};
use csi_proto::reflect::prost_reflect::DynamicMessage;
use csi_proto::{Rpc, redact, reflect};
use futures_util::future::BoxFuture;
use serde_json::Value;

/// Sends the bytes of a request once, as they are. What they make is undone with the scope: where such a request can be read,
/// the ledger knows it before it is sent. One with something in it that we cannot read, and that is done all the same, is
/// made once more without that, which an idempotent driver answers with the same thing.
pub fn send<'a>(cx: &'a Cx, rpc: Rpc, bytes: &'a [u8]) -> BoxFuture<'a, Answer<Value>> {
    Box::pin(async move {
        if let Some(answer) = noted(cx, rpc, bytes, Reading::Exact).await {
            return answer;
        }
        let reply = cx.call_bytes(rpc, bytes.to_vec()).await;
        let answer = reply.answer().as_ref().map(|bytes| response(rpc, bytes));
        if let Answer::Ok(_) = &answer {
            // What it is answered is no news.
            let _ = noted(cx, rpc, bytes, Reading::AsFarAsKnown).await;
        }
        answer
    })
}

/// How much of the bytes has to be understood.
#[derive(Clone, Copy, PartialEq)]
enum Reading {
    /// All of it.
    Exact,
    /// Fields that are unknown are passed over.
    AsFarAsKnown,
}

/// Sends a request that makes something, through the ledger; `None` if it is no such request.
async fn noted(cx: &Cx, rpc: Rpc, bytes: &[u8], reading: Reading) -> Option<Answer<Value>> {
    Some(match Facts::of(rpc)?.makes()? {
        Resource::Volume => told(cx.create_volume(read(bytes, reading)?).once().await),
        Resource::Snapshot => told(cx.create_snapshot(read(bytes, reading)?).once().await),
        Resource::GroupSnapshot => told(cx.create_group_snapshot(read(bytes, reading)?).once().await),
        Resource::Attachment => told(cx.controller_publish(read(bytes, reading)?).once().await),
        Resource::Staging => told(cx.node_stage(read(bytes, reading)?).once().await),
        Resource::Publication => told(cx.node_publish_hostile(read(bytes, reading)?).once().await),
    })
}

fn read<M: prost::Message + Default>(bytes: &[u8], reading: Reading) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    (reading == Reading::AsFarAsKnown || message.encoded_len() == bytes.len()).then_some(message)
}

fn told<M: prost::Name>(reply: Reply<M>) -> Answer<Value> {
    reply.answer().as_ref().map(|message| redact::json(message))
}

/// A response as JSON; null where it is none.
fn response(rpc: Rpc, bytes: &[u8]) -> Value {
    let form = reflect::response_of(rpc);
    let read = form.and_then(|form| DynamicMessage::decode(form, bytes).ok());
    read.map(redact::dynamic).unwrap_or_default()
}
