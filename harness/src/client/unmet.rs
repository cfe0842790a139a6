//! Finds out what a driver or the settings lack that a check needs, and skips it.

use tonic::Code;

use crate::client::target::Target;
use crate::config::AccessType;
use crate::driver::Driver;
use crate::protocol::capability::Capability;
use crate::resources::machine;
use crate::spec::need::Need;
use crate::spec::verdict::{CheckResult, Stop};

/// The reason for skipping checks of a driver that loses everything when it ends.
pub const FORGETFUL: &str = "the driver loses everything when it stops, as restart/remembers says";

impl Need {
    /// The reason why the need is not met, or `None` if it is.
    pub fn unmet(&self, target: &Target, access: AccessType) -> Option<String> {
        let capabilities = target.capabilities();
        let config = target.config();
        match self {
            Need::Has(one) => (!capabilities.has(*one)).then(|| match target.hides(*one) {
                true => format!("{one} is of a later version of CSI than the driver is judged by"),
                false => format!("the driver does not advertise {one}"),
            }),
            Need::Lacks(one) => capabilities
                .has(*one)
                .then(|| format!("for drivers without {one}, which this one advertises")),
            Need::LacksOneOf(some) => target.known_of(some).all(|one| capabilities.has(one)).then(|| {
                "for drivers that leave a capability out; this one advertises all that matter here".to_owned()
            }),
            Need::AnyOf(some) => (!some.iter().any(|one| capabilities.has(*one))).then(|| {
                let names: Vec<_> = some.iter().map(|one| one.name()).collect();
                format!("the driver advertises none of {}", names.join(", "))
            }),
            Need::Serves(service) => {
                (!target.serves(*service)).then(|| format!("the endpoint serves no {service} service"))
            }
            Need::Volume => (!capabilities.has(Capability::CreateDeleteVolume) && config.volumes.is_empty())
                .then(|| {
                    "the driver does not create volumes and --config names no pre-provisioned `volumes`"
                        .to_owned()
                }),
            Need::Access(only) => (access != *only).then(|| format!("only for {only} volumes")),
            Need::Configured(setting) => {
                (!setting.is_set(config)).then(|| format!("needs {} to be configured", setting.flag()))
            }
            Need::Root => {
                if config.paths.any() {
                    Some("the driver's file system can be reached only by path commands".to_owned())
                } else if !rustix::process::geteuid().is_root() {
                    Some("needs root on the driver's host".to_owned())
                } else {
                    None
                }
            }
            Need::TwoNodes => match target.nodes() {
                [] | [_] => Some("needs a second node, which --node-endpoint names".to_owned()),
                [first, second, ..] if first.id().is_none() || second.id().is_none() => {
                    Some("needs a second node, but NodeGetInfo does not return an id on both".to_owned())
                }
                [first, second, ..] if first.id() == second.id() => {
                    Some("needs a second node, but NodeGetInfo returns one id on both".to_owned())
                }
                _ => None,
            },
            Need::Destructive => (!config.allow_harm).then(|| {
                "a faulty driver could damage things here that do not belong to the tests; --allow-harm permits it, for a \
                 machine and a back end that you can afford to lose"
                    .to_owned()
            }),
            Need::Restarts => target.driver().is_none().then(|| {
                "the run cannot stop and start the driver without --driver-command or --restart-command"
                    .to_owned()
            }),
        }
    }
}

/// Skips checks that need a driver which knows after its end what it did before.
///
/// # Errors
/// Skip if a check has already reported that the driver forgets everything: one report is enough.
pub fn needs_memory(driver: &Driver) -> CheckResult {
    if driver.is_forgetful() { Err(Stop::skip(FORGETFUL)) } else { Ok(()) }
}

/// Returns an error if this answer to NodeExpandVolume says that the volume cannot grow while it is in use (NODE-EXPAND-022).
///
/// # Errors
/// Skip for FAILED_PRECONDITION, with the right that this machine lacks for it, if one is known.
pub fn grows_in_use(code: Code) -> CheckResult {
    if code != Code::FailedPrecondition {
        return Ok(());
    }
    let why = "the driver answers FAILED_PRECONDITION to NodeExpandVolume of a volume in use, which is allowed if the file system cannot grow while mounted";
    Err(Stop::skip(match machine::growing_is_denied() {
        Some(right) => format!("{why}; {right}"),
        None => why.to_owned(),
    }))
}
