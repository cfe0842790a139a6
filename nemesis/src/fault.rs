//! A fault as a value: it can be stored, named on the command line, and described.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::step::Step;

/// One thing that breaks at one place in the life of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fault {
    /// The injector that breaks it.
    pub injector: String,
    /// The step of the volume's life in which it breaks.
    pub step: Step,
    /// The thing that breaks, such as `mount:2`, the second call of that command.
    pub place: String,
    /// The way in which it breaks, such as `code-32`.
    pub way: String,
}

impl Fault {
    pub fn new(injector: &str, step: Step, place: impl Into<String>, way: impl Into<String>) -> Fault {
        Fault { injector: injector.to_owned(), step, place: place.into(), way: way.into() }
    }

    /// The name and the number of a place that is counted.
    pub fn counted_place(&self) -> Option<(&str, u32)> {
        let (name, number) = self.place.rsplit_once(':')?;
        Some((name, number.parse().ok()?))
    }
}

/// The form that is stored: `commands/node-stage/blkid:1/code-2`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.injector, self.step.id(), self.place, self.way)
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> String {
        fault.to_string()
    }
}

impl TryFrom<String> for Fault {
    type Error = String;

    fn try_from(text: String) -> Result<Fault, String> {
        text.parse()
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let [injector, step, place, way] = parts[..] else {
            return Err(format!("{text:?} is not a fault: write LEVER/STEP/PLACE/WAY"));
        };
        let step = Step::find(step).ok_or_else(|| format!("{text:?}: there is no step {step:?}"))?;
        Ok(Fault::new(injector, step, place, way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_again() {
        for step in Step::ALL {
            let fault = Fault::new("commands", *step, "mkfs.ext4:2", "code-1");
            assert_eq!(fault.to_string().parse(), Ok(fault.clone()));
            assert_eq!(fault.counted_place(), Some(("mkfs.ext4", 2)));
        }
        assert!("commands/node-stage/mount:1".parse::<Fault>().is_err());
        assert!("commands/nowhere/mount:1/code-1".parse::<Fault>().is_err());
    }
}
