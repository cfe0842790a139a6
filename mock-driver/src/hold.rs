//! Steps at which a call can be held, so that other calls can overlap with it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::call::changes;
use crate::option_value::{ParseOptionError, RpcName};

/// A step of an RPC at which it can be held, written as `CreateVolume` or `CreateVolume:before-commit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HoldPoint {
    pub(crate) rpc: RpcName,
    pub(crate) step: HoldStage,
}

/// A step of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum HoldStage {
    /// Before the request is checked; the object is already locked.
    Start,
    /// After the request was checked and before anything is changed. Only RPCs that change something reach this step.
    BeforeCommit,
    /// After everything is done and before the reply is sent.
    BeforeAnswer,
}

impl FromStr for HoldPoint {
    type Err = ParseOptionError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (rpc, step) = given.split_once(':').unwrap_or((given, ""));
        let rpc: RpcName = rpc.parse()?;
        let step = match step {
            "" => HoldStage::Start,
            "before-commit" if changes(rpc.as_str()) => HoldStage::BeforeCommit,
            "before-answer" => HoldStage::BeforeAnswer,
            _ => return Err(ParseOptionError::Step(given.to_owned())),
        };
        Ok(Self { rpc, step })
    }
}

impl TryFrom<String> for HoldPoint {
    type Error = ParseOptionError;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        given.parse()
    }
}

impl From<HoldPoint> for String {
    fn from(HoldPoint { rpc, step }: HoldPoint) -> Self {
        let rpc = rpc.as_str();
        match step {
            HoldStage::Start => rpc.to_owned(),
            HoldStage::BeforeCommit => format!("{rpc}:before-commit"),
            HoldStage::BeforeAnswer => format!("{rpc}:before-answer"),
        }
    }
}
