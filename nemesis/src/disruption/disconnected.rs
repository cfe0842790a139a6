//! A sidecar that dies takes its connection with it.

use super::{Disruption, Hits, nothing};

/// The connections to the driver break; others take their place.
pub static DISCONNECTED: Disruption = Disruption {
    name: "broken",
    description: "its connection to be broken",
    participle: "cut off",
    hits: Hits::Connections,
    share_under_load: 0,
    inject: |cx| {
        Box::pin(async {
            cx.break_connections().await;
            Ok(())
        })
    },
    heal: nothing,
};
