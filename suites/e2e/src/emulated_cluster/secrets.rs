//! Adds secrets to calls from the Secret objects that classes name, as sidecars and kubelet read them for each call.

use csi_harness::prelude::Cx;
use csi_proto::hidden;

use super::failure::Failure;
use super::parameters::{self, Tokens};
use super::shared::Shared;
use crate::cluster::{Pairs, SecretReference, SecretUse, SnapshotClass};

impl Shared {
    /// Returns the context for calls with the named Secret. If none is named, they have the secrets that are
    /// configured for the RPC; so they have if secrets are configured and no manifest has the Secret.
    ///
    /// # Errors
    /// Fails if there is no such Secret. Then no call is made, and the driver is not at fault.
    pub(super) fn with_secret(&self, cx: &Cx, named: Option<&SecretReference>) -> Result<Cx, Failure> {
        self.with_more_secrets(cx, named, Pairs::new())
    }

    /// Returns the context with the Secret that a snapshot class names.
    ///
    /// # Errors
    /// Fails as [`Shared::with_secret`] does, and if the class is wrong.
    pub(super) fn with_class_secret(
        &self,
        class: &SnapshotClass,
        kind: parameters::ClassKind,
        of: SecretUse,
        tokens: &Tokens<'_>,
    ) -> Result<Cx, Failure> {
        let read = parameters::of_class(&class.parameters, kind);
        let named = read.and_then(|read| read.secret(of, tokens)).map_err(|why| {
            self.is_wrong(format!("class {}: {why}", class.name));
            Failure::of_node(why)
        })?;
        self.with_secret(&self.cx, named.as_ref())
    }

    /// Returns the context with additional secrets.
    ///
    /// # Errors
    /// Fails as [`Shared::with_secret`] does.
    pub(super) fn with_more_secrets(
        &self,
        cx: &Cx,
        named: Option<&SecretReference>,
        more: Pairs,
    ) -> Result<Cx, Failure> {
        let mut secrets = more;
        if let Some(SecretReference { namespace, name }) = named {
            match self.settings.objects.secret(namespace, name) {
                Some(pairs) => secrets.extend(pairs.clone()),
                None if !cx.config().secrets.is_empty() => {}
                None => {
                    let why = format!("there is no Secret {namespace}/{name}");
                    self.is_wrong(format!("{why}, which a class names; --manifest FILE says where it is"));
                    return Err(Failure::of_node(why));
                }
            }
        }
        // A driver may repeat them in an error, which is shown.
        secrets.values().for_each(|value| hidden::hide(value));
        Ok(if secrets.is_empty() { cx.clone() } else { cx.with_secrets(secrets) })
    }
}
