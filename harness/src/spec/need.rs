//! The conditions under which a check makes sense. The runner judges them and gives the reason of a skip.

use csi_proto::Service;

use crate::config::{AccessType, Setting};
use crate::protocol::capability::{Capability, for_each_capability};

/// A condition on driver and configuration.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The driver advertises the capability.
    Has(Capability),
    /// The driver does not advertise the capability.
    Lacks(Capability),
    /// The driver does not advertise all of them.
    LacksOneOf(&'static [Capability]),
    /// The driver advertises at least one of them.
    AnyOf(&'static [Capability]),
    /// The endpoint serves the service.
    Serves(Service),
    /// A volume to work on: the driver creates them, or the configuration names pre-provisioned ones.
    Volume,
    /// The check runs for this access type only.
    Access(AccessType),
    /// The user has configured it.
    Configured(Setting),
    /// The tests run as root on the driver's host, so that mounts and devices can be looked at.
    Root,
    /// There are two nodes, which say that they are different ones.
    TwoNodes,
    /// The user has said that nothing is lost if the driver goes wrong.
    Destructive,
    /// The run may end and start the driver. A check that does so runs alone, whatever it says.
    Restarts,
}

impl Need {
    /// Returns true if a check with this need makes volumes, if the driver lets it.
    pub(crate) fn is_of_volumes(&self) -> bool {
        matches!(self, Need::Volume | Need::Has(Capability::CreateDeleteVolume))
    }

    /// The services whose capabilities decide whether the need is met.
    pub(crate) fn services(&self) -> Vec<Service> {
        match self {
            Need::Has(one) | Need::Lacks(one) => vec![one.reported_by()],
            Need::AnyOf(some) | Need::LacksOneOf(some) => some.iter().map(|one| one.reported_by()).collect(),
            Need::Serves(service) => vec![*service],
            Need::Volume => vec![Service::Controller],
            Need::Access(_)
            | Need::Configured(_)
            | Need::Root
            | Need::TwoNodes
            | Need::Destructive
            | Need::Restarts => Vec::new(),
        }
    }

    /// The need as `list` prints it.
    pub fn describe(&self) -> String {
        match self {
            Need::Has(one) => one.name().to_owned(),
            Need::Lacks(one) => format!("!{one}"),
            Need::LacksOneOf(some) => some.iter().map(|one| format!("!{one}")).collect::<Vec<_>>().join("|"),
            Need::AnyOf(some) => some.iter().map(|one| one.name()).collect::<Vec<_>>().join("|"),
            Need::Serves(service) => format!("{service} service"),
            Need::Volume => "a volume".to_owned(),
            Need::Access(access) => format!("{access} access"),
            Need::Configured(setting) => setting.flag().to_owned(),
            Need::Root => "root".to_owned(),
            Need::TwoNodes => "two nodes".to_owned(),
            Need::Destructive => "--allow-harm".to_owned(),
            Need::Restarts => "restarts of the driver".to_owned(),
        }
    }
}

/// The driver must not advertise the capability.
pub const fn lacks(capability: Capability) -> Need {
    Need::Lacks(capability)
}

/// The driver must not advertise all of the capabilities.
pub const fn lacks_one_of(capabilities: &'static [Capability]) -> Need {
    Need::LacksOneOf(capabilities)
}

/// The driver must advertise one of the capabilities.
pub const fn any_of(capabilities: &'static [Capability]) -> Need {
    Need::AnyOf(capabilities)
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $need:expr;)+) => { $($(#[$doc])* pub const $name: Need = $need;)+ };
}

macro_rules! has {
    ($($set:ident { $($variant:ident $name:ident = $in_protocol:literal from $proto:ident::$value:ident,)+ })+) => {
        $($(#[doc = concat!("The driver advertises it: [`Capability::", stringify!($variant), "`].")]
        pub const $name: Need = Need::Has(Capability::$variant);)+)+
    };
}

for_each_capability!(has);

names! {
    /// The endpoint serves the Controller service.
    CONTROLLER = Need::Serves(Service::Controller);
    /// The endpoint serves the GroupController service.
    GROUP_CONTROLLER = Need::Serves(Service::GroupController);
    /// The endpoint serves the Node service.
    NODE = Need::Serves(Service::Node);
    /// There is a volume to work on.
    VOLUME = Need::Volume;
    /// Runs for mount access only.
    MOUNT_ACCESS = Need::Access(AccessType::Mount);
    /// Runs for block access only.
    BLOCK_ACCESS = Need::Access(AccessType::Block);
    /// Runs as root on the driver's host only.
    ROOT = Need::Root;
    /// There are two nodes: the calls of a check go to the first one, and those of
    /// [`Cx::at_node`](crate::lifecycle::cx::Cx::at_node)`(1)` to the second one.
    TWO_NODES = Need::TwoNodes;
    /// Runs only where nothing is lost if the driver goes wrong.
    DESTRUCTIVE = Need::Destructive;
    /// The run may end and start the driver.
    RESTARTS = Need::Restarts;
}
