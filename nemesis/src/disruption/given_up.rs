//! A caller that does not wait for the answer.

use super::{Disruption, Hits, nothing};

/// The call is given up by its caller.
pub static GIVEN_UP: Disruption = Disruption {
    name: "given-up",
    description: "to be given up",
    participle: "given up",
    hits: Hits::Call,
    share_under_load: 0,
    inject: |cx| {
        Box::pin(async {
            cx.let_go();
            Ok(())
        })
    },
    heal: nothing,
};
