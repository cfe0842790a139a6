//! The sets of parameters that volumes are made with: the configured one, and one that is filled up to the size that a
//! request may carry, if the driver takes it.

use csi_harness::config::Pairs;
use csi_harness::prelude::*;

/// Most bytes of keys and values in a map.
const MAP_BYTES_MAX: usize = 4 << 10;
/// The largest overhead of an entry on the wire. The specification does not say if it counts.
const FRAME_BYTES_MAX: usize = 16;
/// A key that no driver has a meaning for.
const FILLER: &str = "csi-sanity.example/filler";

/// The sets that the driver takes; what it thinks of keys that it does not know is its own business. Is broken if what
/// was made cannot be deleted.
pub(super) async fn sets(cx: &Cx, request: &v1::CreateVolumeRequest) -> CheckResult<Vec<Pairs>> {
    let mut sets = vec![request.parameters.clone()];
    let Some(parameters) = filled(&request.parameters) else { return Ok(sets) };
    let request = v1::CreateVolumeRequest { name: cx.unique_name(), parameters, ..request.clone() };
    let scope = cx.scope();
    let reply = scope.create_volume(request.clone()).await;
    if matches!(reply.answer(), Answer::Ok(_)) {
        sets.push(request.parameters);
    }
    scope.undo().await?;
    Ok(sets)
}

/// The parameters, filled up to the limit; `None` if they are about there already.
fn filled(parameters: &Pairs) -> Option<Pairs> {
    let size = |(key, value): (&String, &String)| key.len() + value.len() + FRAME_BYTES_MAX;
    let taken = parameters.iter().map(size).sum::<usize>() + FILLER.len() + FRAME_BYTES_MAX;
    let rest = MAP_BYTES_MAX.checked_sub(taken).filter(|rest| *rest > 0)?;
    let mut filled = parameters.clone();
    filled.insert(FILLER.to_owned(), "x".repeat(rest));
    Some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pairs: &Pairs) -> usize {
        pairs.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    #[test]
    fn parameters_are_filled_up_to_the_limit() {
        let own = Pairs::from([("pool".to_owned(), "fast".to_owned())]);
        for parameters in [Pairs::new(), own.clone()] {
            let filled = filled(&parameters).unwrap();
            assert!(
                bytes(&filled) <= MAP_BYTES_MAX && bytes(&filled) > MAP_BYTES_MAX - 100,
                "{}",
                bytes(&filled)
            );
            assert!(parameters.iter().all(|(key, value)| filled.get(key) == Some(value)));
        }
        let full = Pairs::from([("pool".to_owned(), "x".repeat(MAP_BYTES_MAX - 20))]);
        assert_eq!(filled(&full), None);
    }
}
