//! The driver has no lists, and makes ids from names: a volume that a rejected call has made is found by the id of an earlier volume with
//! the same name.

use csi_harness::config::Config;
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::{Defect, Quirk};
use csi_test_support::mock::{self, everything_set, little};
use csi_test_support::run::outcomes;
use libtest_mimic::{Failed, Trial};

use crate::registry;

const CHECK: &str = "after-error/nothing-made";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("unlisted/kept-by-a-rejected-call", || {
            let found = failures(vec![Defect::CreateVolumeRefusalKeepsVolume])?;
            let is_found =
                found.iter().any(|message| message.starts_with("a volume was made although CreateVolume "));
            if is_found { Ok(()) } else { Err(Failed::from(format!("{found:?}"))) }
        }),
        Trial::test("unlisted/right-driver", || {
            let found = failures(Vec::new())?;
            if found.is_empty() { Ok(()) } else { Err(Failed::from(found.join("\n"))) }
        }),
    ]
}

fn failures(defects: Vec<Defect>) -> Result<Vec<String>, Failed> {
    let mock = csi_mock_driver::Config {
        defects,
        quirks: vec![Quirk::IdsFromNames],
        without: vec!["LIST_VOLUMES".parse()?, "LIST_SNAPSHOTS".parse()?],
        ..Default::default()
    };
    let config = Config { effort: little(), ..everything_set() };
    let run = mock::run(registry(), mock, config, 1, |one| one.id == CHECK)?;
    let failed = run.reports.iter().flat_map(outcomes).filter_map(Outcome::violation);
    Ok(failed.map(|violation| violation.message.clone()).collect())
}
