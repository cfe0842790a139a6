use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;

use crate::fs::FsType;
use crate::store::BackendKind;

/// The longest node id that the protocol allows.
const NODE_ID_BYTES_MAX: usize = 256;

/// The settings of the driver; the fields correspond to the flags of `Args`, which document them.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub node_id: String,
    /// The other nodes that this process serves.
    pub other_nodes: BTreeSet<String>,
    pub state_dir: PathBuf,
    pub backend: BackendKind,
    pub fs_type: FsType,
    pub default_volume_bytes: u64,
    pub max_volume_bytes: u64,
    pub max_volume_bytes_node: u64,
    /// Zero means any number.
    pub max_volumes_per_node: i64,
    /// Zero means any number, -1 a random answer.
    pub attach_limit: i64,
    /// The size of each pool in bytes.
    pub pools: BTreeMap<String, u64>,
    pub overcommit: bool,
    pub always_ephemeral: bool,
    pub mount_group: bool,
    pub attach: bool,
    pub check_lifecycle: bool,
    pub topology: bool,
    pub controller_expansion: bool,
    pub node_expansion: bool,
    pub modify: bool,
    /// The mutable parameters that may be set; `*` means any.
    pub accepted_mutable_parameters: BTreeSet<String>,
    pub snapshot_metadata: bool,
    pub fixed_length_blocks: bool,
    pub list_snapshots: bool,
}

/// A setting is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The name of the driver breaks ID-INFO-001 or -003.
    #[error("--drivername {0:?} is not a name in domain form of at most 63 characters")]
    Name(String),
    #[error("--nodeid is missing")]
    NoNodeId,
    #[error("--nodeid {0:?} is too long, or holds characters that --enable-topology does not allow")]
    NodeId(String),
    /// A node is named twice, or topology is on, which would claim that the nodes have different volumes although
    /// they share all.
    #[error("--node-endpoint names node {0:?}, which {1}")]
    OtherNode(String, &'static str),
    #[error("--{flag} must be {expected}, not {found}")]
    Number { flag: &'static str, expected: &'static str, found: i64 },
    #[error("--statedir {} is not an absolute path", .0.display())]
    StateDir(PathBuf),
}

impl Config {
    /// Checks everything that the argument parser cannot check.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !is_domain_name(&self.name) {
            return Err(ConfigError::Name(self.name.clone()));
        }
        if self.node_id.is_empty() {
            return Err(ConfigError::NoNodeId);
        }
        let bytes_max = if self.topology { 63 } else { NODE_ID_BYTES_MAX };
        if self.node_id.len() > bytes_max || (self.topology && !is_label(&self.node_id)) {
            return Err(ConfigError::NodeId(self.node_id.clone()));
        }
        self.check_other_nodes()?;
        if self.attach_limit < -1 {
            let found = self.attach_limit;
            return Err(ConfigError::Number { flag: "attach-limit", expected: "-1 or more", found });
        }
        if self.max_volumes_per_node < 0 {
            let found = self.max_volumes_per_node;
            return Err(ConfigError::Number { flag: "maxvolumespernode", expected: "0 or more", found });
        }
        if !self.state_dir.is_absolute() {
            return Err(ConfigError::StateDir(self.state_dir.clone()));
        }
        Ok(())
    }

    fn check_other_nodes(&self) -> Result<(), ConfigError> {
        self.other_nodes.iter().try_for_each(|node| {
            let why = if self.topology {
                "needs --enable-topology=false, as all nodes reach all volumes"
            } else if *node == self.node_id {
                "is that of --nodeid"
            } else if node.is_empty() || node.len() > NODE_ID_BYTES_MAX {
                "is empty or too long"
            } else {
                return Ok(());
            };
            Err(ConfigError::OtherNode(node.clone(), why))
        })
    }

    pub(crate) fn has_node(&self, node_id: &str) -> bool {
        node_id == self.node_id || self.other_nodes.contains(node_id)
    }
}

fn is_domain_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    name.len() <= 63 && name.chars().all(inner) && ends_alphanumeric(name)
}

/// Returns whether topology may use the text as a value (MSG-TOPOLOGY-009).
fn is_label(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    value.chars().all(inner) && ends_alphanumeric(value)
}

fn ends_alphanumeric(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    edge(text.chars().next()) && edge(text.chars().next_back())
}

/// A storage pool, written as `kind=quantity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The value of the `kind` parameter that selects the pool.
    pub kind: String,
    pub bytes: u64,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum PoolError {
    #[error("expected KIND=QUANTITY")]
    Form,
    #[error("{0:?} is not a quantity such as 10Gi, 500M or 1073741824")]
    Quantity(String),
}

impl FromStr for Pool {
    type Err = PoolError;

    fn from_str(text: &str) -> Result<Pool, PoolError> {
        let (kind, quantity) = text.split_once('=').ok_or(PoolError::Form)?;
        if kind.is_empty() {
            return Err(PoolError::Form);
        }
        let bytes = parse_quantity(quantity).ok_or_else(|| PoolError::Quantity(quantity.to_owned()))?;
        Ok(Pool { kind: kind.to_owned(), bytes })
    }
}

/// Parses a quantity in bytes as Kubernetes writes it, without fractions.
pub fn parse_quantity(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor: u64 = match suffix {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        "Ei" => 1 << 60,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| i64::try_from(*bytes).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        assert_eq!(parse_quantity("10Gi"), Some(10 << 30));
        assert_eq!(parse_quantity("5"), Some(5));
        for text in ["", "Gi", "-1", "1.5Gi", "1 Gi", "1GB", "99999999999999999999", "9Ei9", "8Ei"] {
            assert_eq!(parse_quantity(text), None, "{text:?}");
        }
    }

    #[test]
    fn names_are_checked() {
        assert!(is_domain_name("hostpath.csi.k8s.io"));
        for name in ["", "a_b", "-a", "a.", &"a".repeat(64)] {
            assert!(!is_domain_name(name), "{name:?}");
        }
    }
}
