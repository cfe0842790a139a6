use std::time::Instant;

use csi_driver_definitions::Capability;
use csi_harness::prelude::{Damage, Stop, Violation};
use csi_workload::database::{Database, DatabaseError};
use csi_workload::rules::IN_USE_001;

use crate::cluster::{Done, Feature};
use crate::pattern;
use crate::scene::{Place, Scene, path_of};
use crate::test;
use crate::test::{Need, Suite};

/// The pods of a test, one after the other, each of which is killed with its database.
const LIVES: u32 = 8;

/// Upstream has no application in its tests.
pub(crate) static SUITE: Suite = Suite {
    name: "sqlite",
    patterns: &[&pattern::DEFAULT_FS],
    // The database and its log have less than 16 MiB.
    size_min_bytes: 32 << 20,
    needs: &[Need::Can(Capability::Persistence), Need::Offers(Feature::LocalPods)],
    tests: &[&SAME_NODE, &OTHER_NODE],
    ..Suite::PLAIN
};

test! {
    /// A database is killed with its pod again and again, each time at another step. After each start it is whole, and
    /// holds every transaction that it has acknowledged.
    SAME_NODE {
        name: "should keep every acknowledged transaction of a database that is killed with its pod",
    }
    async |scene| {
        keep_transactions(scene, Place::SameNode).await
    }
}

test! {
    /// A database is killed with its pod again and again, and each next pod runs on another node. After each start it
    /// is whole, and holds every transaction that it has acknowledged.
    OTHER_NODE {
        name: "should keep every acknowledged transaction of a database that is killed with its pod and moves to another node",
        needs: [Need::Cannot(Capability::SingleNodeVolume), Need::TwoNodes],
    }
    async |scene| {
        keep_transactions(scene, Place::OtherNode).await
    }
}

async fn keep_transactions(scene: &Scene, place: Place) -> Done {
    let effort = &scene.cx.config().effort;
    let (lives, begun) = (effort.scaled(LIVES), Instant::now());
    let volume = scene.volume().await?;
    let (mut database, mut node) = (Database::new(scene.rng_seed()), None::<String>);
    let mut kills = 0;
    loop {
        let mut spec = scene.pod(&[&volume]);
        if let Some(node) = node {
            place.put(&mut spec, node);
        }
        let pod = scene.run(spec).await?;
        let target = scene.cluster().local_path(&pod.name, &pod.container, &path_of(0)).await?;
        let is_last = kills == lives || begun.elapsed() > effort.ceiling();
        let played = match is_last {
            true => database.check(&target).await,
            false => database.live(&target).await,
        };
        played.map_err(|error| judged(error, kills))?;
        node = Some(pod.node.clone());
        pod.delete().await?;
        if is_last {
            let acknowledged = database.acknowledged();
            scene.note(format!("the database was killed {kills} times, and has {acknowledged} transactions"));
            return Ok(());
        }
        kills += 1;
    }
}

/// Decides what an error of the database says about the driver.
fn judged(error: DatabaseError, kills: u32) -> Stop {
    let text = format!("at start {}: {error}", kills + 1);
    match error {
        DatabaseError::Lost(_) => Violation::new("a volume loses what a database has committed")
            .of(&IN_USE_001)
            .expected("a database that is whole, with every transaction that it has acknowledged")
            .actual(text)
            .damage(Damage::DataLoss)
            .into(),
        DatabaseError::Failed(_) => Violation::new("a database gets an error from its volume")
            .of(&IN_USE_001)
            .expected("writes and reads that succeed, as they did before")
            .actual(text)
            .into(),
        DatabaseError::Unsupported(_) => Stop::skip(error.to_string()),
        DatabaseError::Unjudged(_) => Stop::broken(text),
    }
}
