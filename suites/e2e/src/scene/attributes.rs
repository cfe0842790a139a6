//! Changes the attributes of volumes.

use std::time::Duration;

use csi_harness::prelude::Stop;

use super::{Scene, Seen};
use crate::cluster::{AttributesClass, Done};

/// Limits a change. As upstream, it is no timeout of the definition.
const MODIFY_LIMIT: Duration = Duration::from_secs(10 * 60);
/// The condition of a claim whose change has failed.
const MODIFY_ERROR: &str = "ModifyVolumeError";
/// The conditions of a claim with an unfinished change.
const MODIFYING: &[&str] = &["ModifyingVolume", MODIFY_ERROR];

impl Scene {
    /// Returns a copy of the definition's VolumeAttributesClass with a new name, which is not created yet.
    pub(crate) fn attributes_class_copy(&self) -> Done<AttributesClass> {
        let defined = self.definition.attributes.as_ref();
        let defined = defined.ok_or_else(|| Stop::skip("the definition has no VolumeAttributesClass"))?;
        Ok(AttributesClass { name: self.name("attributes-class"), ..defined.clone() })
    }

    /// Creates a copy of the definition's VolumeAttributesClass.
    pub(crate) async fn attributes_class(&self) -> Done<AttributesClass> {
        let class = self.attributes_class_copy()?;
        self.cluster().create_attributes_class(&class).await?;
        Ok(class)
    }

    /// Gives a volume the attributes of a class, and waits until it has them.
    pub(crate) async fn modify(&self, claim: &str, class: &AttributesClass) -> Done {
        self.cluster().set_attributes_class(claim, &class.name).await?;
        self.has_attributes(claim, class).await
    }

    /// Waits until a volume has the attributes of a class, and nothing is left to do.
    pub(crate) async fn has_attributes(&self, claim: &str, class: &AttributesClass) -> Done {
        let what = format!("the volume of claim {claim} gets the attributes of {}", class.name);
        self.until(&what, MODIFY_LIMIT, || async {
            let claim = self.existing_claim(claim).await?;
            let left = claim.conditions.iter().find(|condition| MODIFYING.contains(&condition.as_str()));
            Ok(match (left, &claim.given_up) {
                (None, _) if claim.attributes_class.as_deref() == Some(&class.name) => Seen::There(()),
                (_, Some(why)) => Seen::Never(why.clone()),
                (_, None) => {
                    let event = self.explaining_event(&claim.spec.name).await?;
                    let class = claim.attributes_class.as_deref().unwrap_or("no class");
                    Seen::NotYet(format!("it has {class}, {:?}{event}", claim.conditions))
                }
            })
        })
        .await
    }

    /// Waits until a change to a class has failed.
    pub(crate) async fn modification_fails(&self, claim: &str, class: &AttributesClass) -> Done {
        let what = format!("the driver rejects the attributes of {}", class.name);
        self.until(&what, MODIFY_LIMIT, || async {
            let claim = self.existing_claim(claim).await?;
            let is_refused =
                claim.given_up.is_some() || claim.conditions.iter().any(|one| one == MODIFY_ERROR);
            Ok(match claim.attributes_class.as_deref() == Some(&class.name) {
                true => Seen::Never(format!("the volume of claim {} has them", claim.spec.name)),
                false if is_refused => Seen::There(()),
                false => Seen::NotYet("it has neither failed nor finished".to_owned()),
            })
        })
        .await
    }
}
