//! The model finds no fault with what the mock driver answers to any sequence of calls that an orchestrator may make.

mod caller;
mod ground;
mod said;

use std::time::Duration;

use csi_suite_stateful::model::call::Call;
use csi_suite_stateful::model::generate::{Op, Verb, generate};
use csi_suite_stateful::model::{Model, Span};
use tokio::runtime::{Builder, Runtime};

use crate::{Target, file};
use caller::Caller;
use ground::ground;

/// The first byte says what the driver can do; each three of the others are something to do.
pub const TARGET: Target = Target { name: "model_mock", run, seeds, tokens: &[] };

const OPS_MAX: usize = 100;
fn run(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    if let Some((without, ops)) = bytes.split_first() {
        RUNTIME.with(|runtime| runtime.block_on(play(*without, ops)));
    }
}

async fn play(without: u8, bytes: &[u8]) {
    let (profile, driver) = ground(without).await;
    let directory = file::directory_of_thread();
    let mut caller = Caller::new(&driver, &profile, &directory);
    let mut model = Model::new(profile);
    let mut made: Vec<(Call, String)> = Vec::new();
    for (nth, op) in (0..).zip(bytes.chunks_exact(3).take(OPS_MAX)) {
        let verb = Verb::ALL[usize::from(op[0]) % Verb::ALL.len()];
        // Workloads need mounts.
        if matches!(verb, Verb::Write | Verb::Read) {
            continue;
        }
        let op = Op { verb, pick: u32::from(u16::from_le_bytes([op[1], op[2]])) };
        let moment = |part| Duration::from_millis(2 * u64::from(nth) + part);
        let Some(call) = generate(&model, op, nth, moment(0)) else { continue };
        let Some(answer) = caller.call(&call).await else { continue };
        let taken = model.take(&call, &answer, Span { invoked: moment(0), returned: moment(1) });
        made.push((call, answer.to_string()));
        let wrong = taken.stop.map(|stop| format!("{stop:?}"));
        let wrong = wrong.or_else(|| taken.remarks.first().map(|remark| format!("{remark:?}")));
        assert!(wrong.is_none(), "{}\n{}", wrong.unwrap_or_default(), table(&made));
    }
    caller.clear_away();
}

fn table(made: &[(Call, String)]) -> String {
    made.iter().map(|(call, answer)| format!("{call}: {answer}\n")).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    // Each kind of thing to do, and then each again, with other objects.
    let round =
        |first: u8| (0..Verb::ALL.len() as u8).flat_map(move |verb| [verb, first.wrapping_add(verb), 0]);
    let whole = |without: u8| [without].into_iter().chain(round(0)).chain(round(7)).collect();
    [0, 1, 2, 4, 0x80].map(whole).into()
}
