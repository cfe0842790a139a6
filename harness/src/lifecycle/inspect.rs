//! Reads, by a command of the configuration, what only the vendor can: the state of a volume or a snapshot in the back
//! end.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::config::{Pairs, command, parse_yaml};
use crate::lifecycle::cx::Cx;
use crate::spec::verdict::Stop;

/// Time that the command has for one object.
const LIMIT: Duration = Duration::from_secs(30);

/// The state of an object in the back end. A field that the command leaves out is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Inspected {
    /// True if it exists.
    pub exists: Option<bool>,
    /// The values in force of all parameters of a volume, of mutable ones as of others; a key that is missing has none.
    pub parameters: Option<Pairs>,
    /// The ids of the nodes that a volume is attached to.
    pub attached_to: Option<BTreeSet<String>>,
}

impl Cx {
    /// Asks the command of the user about a volume.
    ///
    /// # Errors
    /// Broken if the command fails, or prints something else.
    pub async fn inspect_volume(&self, id: &str) -> Result<Inspected, Stop> {
        self.inspect("volume", id).await
    }

    /// Asks the command of the user about a snapshot.
    ///
    /// # Errors
    /// Broken if the command fails, or prints something else.
    pub async fn inspect_snapshot(&self, id: &str) -> Result<Inspected, Stop> {
        self.inspect("snapshot", id).await
    }

    async fn inspect(&self, kind: &str, id: &str) -> Result<Inspected, Stop> {
        let Some(command) = &self.config().inspect_command else {
            return Err(Stop::broken("the configuration has no inspect-command"));
        };
        let printed = command::run_in_shell(command, &[kind, id], LIMIT).await.map_err(Stop::broken)?;
        read(&printed).map_err(|problem| {
            Stop::broken(format!(
                "inspect-command of {kind} {id} has to print facts as YAML or JSON, such as {{exists: true}}: {problem}"
            ))
        })
    }
}

fn read(printed: &str) -> Result<Inspected, String> {
    if printed.is_empty() {
        return Err("it printed nothing".to_owned());
    }
    parse_yaml(Path::new("what it printed"), printed).map_err(|problem| problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_yaml_or_json_and_nothing_else() {
        let read_json = read(r#"{"exists": true, "parameters": {"iops": "3000"}}"#).unwrap();
        assert_eq!(read_json, read("exists: true\nparameters: {iops: \"3000\"}").unwrap());
        assert_eq!(read("{}").unwrap(), Inspected::default(), "what is left out is not known");
        assert!(read("").unwrap_err().contains("nothing"));
        assert!(read("exits: true").unwrap_err().contains("exits"), "a key that is mistyped is named");
    }
}
