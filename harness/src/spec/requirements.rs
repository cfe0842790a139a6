//! The statements of the specification, row by row.
//!
//! The rows live in `harness/requirements.yaml`; [`req`] is generated from them, so that a check names the rule it
//! tests as `req::CTRL_CREATEVOL_010` and a typo does not compile.

/// Makes a static of each row, named by its id, and the list of all of them. The values stand in the order of the
/// fields of [`Requirement`].
macro_rules! rows {
    ($($name:ident: $id:literal, $rpc:literal, $level:ident, $on:ident, [$($need:expr),*], $when:literal,
        $expect:literal, $code:expr, $section:literal, $lines:expr, $test:ident, $caution:expr, $maturity:ident,
        $basis:ident $(($says:literal))? $(since $since:ident)? $(until $until:ident)? $(, [$(($component:literal, $breaks:literal, $place:literal)),+])?;)+) => {
        use crate::protocol::capability::Capability::*;
        use crate::protocol::version::{Version, Versions};
        use crate::spec::need::Need::{AnyOf, Has, Lacks};
        use crate::spec::requirements::{Basis, Level, Maturity, Party, Reliance, Requirement, Testability};

        $(
            #[doc = concat!($when, ": ", $expect)]
            pub static $name: Requirement = Requirement {
                id: $id,
                rpc: $rpc,
                level: Level::$level,
                on: Party::$on,
                requires: &[$($need),*],
                when: $when,
                expect: $expect,
                code: $code,
                section: $section,
                lines: $lines,
                test: Testability::$test,
                caution: $caution,
                maturity: Maturity::$maturity,
                basis: Basis::$basis $(($says))?,
                versions: Versions::ALL$(.since(Version::$since))?$(.until(Version::$until))?,
                relied_on_by: &[$($(Reliance { component: $component, breaks: $breaks, place: $place }),+)?],
            };
        )+

        /// Every row, in the order of the specification.
        pub static ALL: &[&Requirement] = &[$(&$name),+];
    };
}

/// Every row as a static, named by its id.
#[rustfmt::skip]
pub mod req;

use std::fmt;

use crate::config::profile::Profile;
use crate::protocol::version::Versions;
use crate::spec::need::Need;

/// One checkable statement of the specification, in our own words.
#[derive(Debug)]
pub struct Requirement {
    /// Stable id, such as `CTRL-CREATEVOL-010`.
    pub id: &'static str,
    /// The RPC or message the statement is about, or `*`.
    pub rpc: &'static str,
    /// The keyword of the statement.
    pub level: Level,
    /// The party that has to keep it.
    pub on: Party,
    /// The capabilities that a driver has to advertise for the statement to apply to it; it needs all of them.
    pub requires: &'static [Need],
    /// The situation.
    pub when: &'static str,
    /// The behaviour that is required then.
    pub expect: &'static str,
    /// The gRPC code asked for, where the text names one.
    pub code: Option<&'static str>,
    /// Heading of the specification's section.
    pub section: &'static str,
    /// First and last line in `spec.md`.
    pub lines: (u32, u32),
    /// The means that a test needs.
    pub test: Testability,
    /// A way in which a plain probe could accuse a driver that keeps the rules.
    pub caution: Option<&'static str>,
    /// States if the part of the protocol may still change.
    pub maturity: Maturity,
    /// The part of the specification that the statement rests on.
    pub basis: Basis,
    /// The versions of the protocol that have it. If a later version has removed its subject, a driver that still
    /// offers it has to keep the rule.
    pub versions: Versions,
    /// The components of Kubernetes that rely on it, whatever its level.
    pub relied_on_by: &'static [Reliance],
}

/// A component of Kubernetes that counts on a requirement.
#[derive(Debug, PartialEq, Eq)]
pub struct Reliance {
    /// The name of the component, such as `kubelet` or a sidecar.
    pub component: &'static str,
    /// The problem that users of the component meet if a driver does otherwise.
    pub breaks: &'static str,
    /// The place in its code, in words.
    pub place: &'static str,
}

impl Requirement {
    /// A rule of our own, which binds or is recommended to every driver of every version. `section` names the document that explains it.
    pub const fn own(
        section: &'static str,
        id: &'static str,
        level: Level,
        when: &'static str,
        expect: &'static str,
    ) -> Requirement {
        Requirement {
            id,
            rpc: "*",
            level,
            on: Party::Plugin,
            requires: &[],
            when,
            expect,
            code: None,
            section,
            lines: (0, 0),
            test: Testability::Blackbox,
            caution: None,
            maturity: Maturity::Stable,
            basis: Basis::Own,
            versions: Versions::ALL,
            relied_on_by: &[],
        }
    }

    /// The requirement, with the components of Kubernetes that count on it.
    pub const fn relied_on_by(self, relied_on_by: &'static [Reliance]) -> Requirement {
        Requirement { relied_on_by, ..self }
    }

    /// Looks a row up by its id.
    pub fn find(id: &str) -> Option<&'static Requirement> {
        req::ALL.iter().copied().find(|row| row.id == id)
    }

    /// The mildest profile under which a breach makes a run fail. Statements with MUST bind, and so does the plain meaning of a field
    /// or an RPC. What is only inferred from the text, or recommended, is a warning, unless Kubernetes counts on it.
    pub fn binds_from(&self) -> Profile {
        match (self.level, self.basis) {
            (Level::Must, basis) if !matches!(basis, Basis::Derived | Basis::Analogy) => Profile::Csi,
            _ if !self.relied_on_by.is_empty() => Profile::Kubernetes,
            _ => Profile::Strict,
        }
    }

    /// Returns true if a violation makes a run fail under every profile.
    pub fn is_binding(&self) -> bool {
        self.binds_from() == Profile::Csi
    }

    /// The reason why a violation may only lead to a warning, although the rule says MUST.
    pub fn why_only_warned(&self) -> Option<&'static str> {
        match self.is_binding() {
            true => Some(
                self.caution.unwrap_or("a driver can have a reason for it that does not show from outside"),
            ),
            false => self.why_not_binding().filter(|_| self.level == Level::Must),
        }
    }

    /// The reason why a violation does not fail a run under the profile csi.
    pub fn why_not_binding(&self) -> Option<&'static str> {
        if self.is_binding() {
            return None;
        }
        Some(match (self.level, self.basis) {
            (_, Basis::Derived) => "the specification implies it, and does not state it",
            (_, Basis::Analogy) => "the specification states it for another RPC, and not for this one",
            (_, Basis::Own) => "csi-sanity recommends it, and the specification says nothing about it",
            (Level::May, _) => "the specification permits it, and does not demand it",
            _ => "the specification recommends it, and does not demand it",
        })
    }

    /// The sentence of the specification that it states in other words, where the text has no keyword there.
    pub fn meaning(&self) -> Option<&'static str> {
        match self.basis {
            Basis::Meaning(sentence) => Some(sentence),
            _ => None,
        }
    }

    /// The keyword, and that it is inferred if it does not stand in the text: `MUST, inferred`.
    pub fn strength(&self) -> String {
        match self.basis {
            Basis::Derived | Basis::Analogy => format!("{}, inferred", self.level),
            _ => self.level.to_string(),
        }
    }

    /// The statement as one sentence.
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.when, self.expect)
    }
}

impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// Strength of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// MUST, SHALL and REQUIRED.
    Must,
    /// SHOULD and RECOMMENDED.
    Should,
    /// A freedom that a checker has to tolerate.
    May,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
            Level::May => "MAY",
        })
    }
}

/// The party that has to keep a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The driver (the specification's SP).
    Plugin,
    /// Its caller (the specification's CO), so this harness too.
    Orchestrator,
}

/// The means that a test of a requirement needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Testability {
    /// gRPC calls suffice.
    Blackbox,
    /// gRPC calls in parallel or cut short.
    Concurrent,
    /// A node plugin that really mounts, usually as root.
    Mount,
    /// The driver has to be restarted.
    Restart,
    /// A second node or topology.
    MultiNode,
    /// A rule that the checker keeps rather than probes.
    ModelOnly,
    /// Not visible through gRPC, or needs faults, full storage or documents.
    Untestable,
}

/// States if a part of the protocol may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maturity {
    /// Final.
    Stable,
    /// Marked alpha in the protocol.
    Alpha,
}

/// The part of the specification that a requirement rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A keyword of that level stands in the cited lines.
    Keyword,
    /// A row of an error table.
    Table,
    /// A REQUIRED request field.
    Field,
    /// Lower-case must, should or required.
    Lowercase,
    /// The meaning of a field or an RPC, as this sentence of the specification states it without a keyword.
    Meaning(&'static str),
    /// Inferred from what the specification states.
    Derived,
    /// Inferred from the rule of another RPC, as the text of this one was not at hand.
    Analogy,
    /// Nothing in the specification: a rule of a suite's own.
    Own,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_found() {
        let mut ids: Vec<_> = req::ALL.iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), req::ALL.len());
        assert_eq!(Requirement::find("CTRL-CREATEVOL-010"), Some(&req::CTRL_CREATEVOL_010));
        assert_eq!(Requirement::find("CTRL-CREATEVOL-999"), None);
    }
}
